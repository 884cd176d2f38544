// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// One message between two hosts without a connection. The first host: ud kiw0 1; the second: ud kiw0 1 GID QPN.
#include <arpa/inet.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <infiniband/verbs.h>

constexpr std::uint32_t key = 0x11111111; // Q_Key: the same on both hosts

static void need(bool good, const char *what)
{
	if (!good) {
		std::perror(what);
		std::exit(1);
	}
}

int main(int argc, char **argv)
{
	const bool sends = argc == 5;
	if (argc != 3 && !sends)
		return std::fprintf(stderr, "usage: ud DEVICE GID-INDEX [GID QPN]\n"), 2;
	ibv_device **device = ibv_get_device_list(nullptr);
	while (device && *device && std::strcmp(ibv_get_device_name(*device), argv[1]) != 0)
		device++;
	need(device && *device, "no such device");
	ibv_context *context = ibv_open_device(*device);
	need(context, "ibv_open_device");

	// A GRH of 40 bytes comes before each message that is received.
	static char buffer[40 + 64];
	ibv_pd *pd = ibv_alloc_pd(context);
	ibv_cq *cq = ibv_create_cq(context, 2, nullptr, nullptr, 0);
	need(pd && cq, "objects");
	ibv_mr *mr = ibv_reg_mr(pd, buffer, sizeof(buffer), IBV_ACCESS_LOCAL_WRITE);
	need(mr, "ibv_reg_mr");
	ibv_qp_init_attr init{};
	init.send_cq = init.recv_cq = cq;
	init.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 0};
	init.qp_type = IBV_QPT_UD;
	ibv_qp *qp = ibv_create_qp(pd, &init);
	need(qp, "ibv_create_qp");
	ibv_qp_attr attr{};
	attr.qkey = key;
	attr.port_num = 1;
	const int masks[] = {IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY, 0, IBV_QP_SQ_PSN};
	for (int i = 0; i < 3; i++) {
		attr.qp_state = static_cast<ibv_qp_state>(IBV_QPS_INIT + i);
		need(!ibv_modify_qp(qp, &attr, IBV_QP_STATE | masks[i]), "ibv_modify_qp");
	}

	ibv_ah_attr address{};
	address.is_global = address.port_num = 1;
	address.grh.sgid_index = static_cast<std::uint8_t>(std::strtoul(argv[2], nullptr, 10));
	ibv_sge sge{reinterpret_cast<std::uintptr_t>(buffer), sizeof(buffer), mr->lkey};
	ibv_wc wc;
	if (sends) {
		ibv_send_wr wr{}, *bad;
		need(inet_pton(AF_INET6, argv[3], &address.grh.dgid) == 1, "inet_pton");
		sge.length =
			static_cast<std::uint32_t>(std::snprintf(buffer, sizeof(buffer), "hello without a connection"));
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.opcode = IBV_WR_SEND;
		wr.send_flags = IBV_SEND_SIGNALED;
		wr.wr.ud = {ibv_create_ah(pd, &address), static_cast<std::uint32_t>(std::strtoul(argv[4], nullptr, 10)),
			key};
		need(wr.wr.ud.ah && !ibv_post_send(qp, &wr, &bad), "ibv_post_send");
	} else {
		ibv_recv_wr wr{}, *bad;
		char name[INET6_ADDRSTRLEN];
		ibv_gid gid;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		need(!ibv_post_recv(qp, &wr, &bad), "ibv_post_recv");
		need(!ibv_query_gid(context, 1, address.grh.sgid_index, &gid), "ibv_query_gid");
		std::printf("%s %u\n", inet_ntop(AF_INET6, &gid, name, sizeof(name)), qp->qp_num);
		std::fflush(stdout);
	}
	while (!ibv_poll_cq(cq, 1, &wc))
		;
	need(wc.status == IBV_WC_SUCCESS, ibv_wc_status_str(wc.status));
	if (!sends)
		std::printf("%.*s, from %u\n", static_cast<int>(wc.byte_len - 40), buffer + 40, wc.src_qp);
	return 0; // the kernel takes the objects back
}
