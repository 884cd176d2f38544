// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// ud_bw -d DEVICE -g SLOT [-p PORT] [-s BYTES] [-n MESSAGES] [-l LIST] [SERVER]: bandwidth of datagram queue pairs. The
// client sends, LIST messages (1) to a post; the server tells by a datagram now and then how many have come, so that no
// more are under way than it has receives for. Both agree on addresses over TCP. It takes the place of perftest's
// ib_send_bw, which posts an RDMA Write as a credit on any iWARP device, also on datagram queue pairs.
#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <infiniband/verbs.h>
#include <netdb.h>
#include <string>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::uint32_t key = 0x1357;
constexpr int window = 256;
constexpr int report = 64;
constexpr std::uint32_t grh = 40;

[[noreturn]] void die(const char *what, int error = errno)
{
	std::fprintf(stderr, "ud_bw: %s: %s\n", what, std::strerror(error));
	std::exit(1);
}

struct Options {
	std::string device;
	std::uint8_t slot = 1;
	std::string port = "18600";
	std::uint32_t size = 1024;
	std::uint32_t count = 20000;
	std::uint32_t list = 1;
	std::string server;
};

/// What both tell each other, in this order, and no other program reads
struct Address {
	ibv_gid gid;
	std::uint32_t number;
};

Address exchange(const Options &options, const Address &own)
{
	addrinfo hints{};
	addrinfo *found = nullptr;
	const int one = 1;
	Address other{};

	hints.ai_socktype = SOCK_STREAM;
	hints.ai_family = AF_INET;
	hints.ai_flags = AI_PASSIVE;
	if (getaddrinfo(
		    options.server.empty() ? nullptr : options.server.c_str(), options.port.c_str(), &hints, &found))
		die("address", EINVAL);
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (options.server.empty()) {
		if (bind(fd, found->ai_addr, found->ai_addrlen) || listen(fd, 1))
			die("listen");
		const int connection = accept(fd, nullptr, nullptr);
		close(fd);
		fd = connection;
	} else if (connect(fd, found->ai_addr, found->ai_addrlen)) {
		die("connect");
	}
	freeaddrinfo(found);
	if (fd < 0 || write(fd, &own, sizeof(own)) != sizeof(own) ||
		recv(fd, &other, sizeof(other), MSG_WAITALL) != sizeof(other))
		die("exchange");
	close(fd);
	return other;
}

class End {
public:
	explicit End(const Options &options)
		: size_(std::max<std::uint32_t>(options.size, sizeof(std::uint32_t))),
		  memory_(std::size_t{window + 1} * (grh + size_))
	{
		int n = 0;
		ibv_device **list = ibv_get_device_list(&n);

		for (int i = 0; i < n; i++)
			if (options.device == ibv_get_device_name(list[i]))
				context_ = ibv_open_device(list[i]);
		if (!context_)
			die("device", ENODEV);
		pd_ = ibv_alloc_pd(context_);
		cq_ = ibv_create_cq(context_, 4 * window, nullptr, nullptr, 0);
		mr_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(), IBV_ACCESS_LOCAL_WRITE);
		if (!pd_ || !cq_ || !mr_)
			die("objects");
		ibv_qp_init_attr init{};
		init.send_cq = init.recv_cq = cq_;
		init.cap = {window, window, 1, 1, 0};
		init.qp_type = IBV_QPT_UD;
		qp_ = ibv_create_qp(pd_, &init);
		if (!qp_)
			die("queue pair");
		ibv_qp_attr attr{};
		attr.qp_state = IBV_QPS_INIT;
		attr.port_num = 1;
		attr.qkey = key;
		int error = ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
		attr.qp_state = IBV_QPS_RTR;
		if (!error)
			error = ibv_modify_qp(qp_, &attr, IBV_QP_STATE);
		attr.qp_state = IBV_QPS_RTS;
		if (!error)
			error = ibv_modify_qp(qp_, &attr, IBV_QP_STATE | IBV_QP_SQ_PSN);
		if (error)
			die("state", error);
		for (int i = 0; i < window; i++)
			receive(static_cast<std::uint64_t>(i));
	}

	void meet(const Options &options)
	{
		Address own{};

		own.number = qp_->qp_num;
		if (ibv_query_gid(context_, 1, options.slot, &own.gid))
			die("GID");
		peer_ = exchange(options, own);
		ibv_ah_attr attr{};
		attr.is_global = 1;
		attr.port_num = 1;
		attr.grh.dgid = peer_.gid;
		attr.grh.sgid_index = options.slot;
		attr.grh.hop_limit = 64;
		ah_ = ibv_create_ah(pd_, &attr);
		if (!ah_)
			die("address handle");
	}

	/// Posts the same message @p list times, at most the window, as one list
	void send(const void *message, std::uint32_t length, std::uint32_t list = 1)
	{
		std::memcpy(at(window), message, length);
		ibv_sge sge = {reinterpret_cast<std::uintptr_t>(at(window)), length, mr_->lkey};
		std::array<ibv_send_wr, window> wr{};
		ibv_send_wr *bad = nullptr;

		for (std::uint32_t i = 0; i < list; i++) {
			wr.at(i).next = i + 1 < list ? &wr.at(i + 1) : nullptr;
			wr.at(i).sg_list = &sge;
			wr.at(i).num_sge = 1;
			wr.at(i).opcode = IBV_WR_SEND;
			wr.at(i).send_flags = IBV_SEND_SIGNALED;
			wr.at(i).wr.ud = {ah_, peer_.number, key};
		}
		if (const int error = ibv_post_send(qp_, wr.data(), &bad))
			die("send", error);
		sending_ += static_cast<int>(list);
	}

	void receive(std::uint64_t slot)
	{
		ibv_sge sge = {reinterpret_cast<std::uintptr_t>(at(slot)), grh + size_, mr_->lkey};
		ibv_recv_wr wr{};
		ibv_recv_wr *bad = nullptr;

		wr.wr_id = slot;
		wr.sg_list = &sge;
		wr.num_sge = 1;
		if (const int error = ibv_post_recv(qp_, &wr, &bad))
			die("receive", error);
	}

	/// Takes completions; calls back for each message that has come. Returns whether there was any completion.
	template <typename Take>
	bool poll(const Take &take)
	{
		std::array<ibv_wc, 32> wc{};
		const int n = ibv_poll_cq(cq_, wc.size(), wc.data());

		if (n < 0)
			die("poll", EIO);
		for (int i = 0; i < n; i++) {
			if (wc[i].status != IBV_WC_SUCCESS) {
				std::fprintf(stderr, "ud_bw: %s\n", ibv_wc_status_str(wc[i].status));
				std::exit(1);
			}
			if (!(wc[i].opcode & IBV_WC_RECV)) {
				sending_--;
				continue;
			}
			take(at(wc[i].wr_id) + grh);
			receive(wc[i].wr_id);
		}
		return n > 0;
	}

	char *at(std::uint64_t slot) { return memory_.data() + slot * (grh + size_); }
	int sending() const { return sending_; }

private:
	std::uint32_t size_;
	std::vector<char> memory_;
	ibv_context *context_ = nullptr;
	ibv_pd *pd_ = nullptr;
	ibv_cq *cq_ = nullptr;
	ibv_mr *mr_ = nullptr;
	ibv_qp *qp_ = nullptr;
	ibv_ah *ah_ = nullptr;
	Address peer_{};
	int sending_ = 0;
};

/// Nothing has come for a second: something was lost.
class Patience {
public:
	void renew() { since_ = Clock::now(); }
	bool over() const { return Clock::now() - since_ > std::chrono::seconds(1); }

private:
	Clock::time_point since_ = Clock::now();
};

int serve(End &end, const Options &options)
{
	std::uint32_t come = 0;
	Patience patience;

	while (come < options.count && !patience.over()) {
		const bool any = end.poll([&](const char *) {
			if (++come % report == 0 || come == options.count)
				end.send(&come, sizeof(come));
		});
		if (any)
			patience.renew();
	}
	while (end.sending())
		end.poll([](const char *) {});
	std::printf("%u of %u messages of %u bytes have come\n", come, options.count, options.size);
	return come == options.count ? 0 : 1;
}

int call(End &end, const Options &options)
{
	const std::vector<char> message(options.size, 'm');
	std::uint32_t sent = 0;
	std::uint32_t come = 0;
	const Clock::time_point start = Clock::now();
	Patience patience;

	while (come < options.count && !patience.over()) {
		const std::uint32_t list = std::min(options.list, options.count - sent);
		if (list && sent - come + list <= window - report && end.sending() + static_cast<int>(list) <= window) {
			end.send(message.data(), options.size, list);
			sent += list;
		}
		if (end.poll([&](const char *text) { std::memcpy(&come, text, sizeof(come)); }))
			patience.renew();
	}
	const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
	std::printf("%u bytes: %.0f messages/s, %.1f MB/s\n", options.size, come / seconds,
		double(come) * options.size / seconds / 1e6);
	return come == options.count ? 0 : 1;
}

} // namespace

int main(int argc, char **argv)
{
	Options options;
	int option = 0;

	while ((option = getopt(argc, argv, "d:g:p:s:n:l:")) != -1)
		switch (option) {
		case 'd':
			options.device = optarg;
			break;
		case 'g':
			options.slot = static_cast<std::uint8_t>(std::stoul(optarg));
			break;
		case 'p':
			options.port = optarg;
			break;
		case 's':
			options.size = static_cast<std::uint32_t>(std::stoul(optarg));
			break;
		case 'n':
			options.count = static_cast<std::uint32_t>(std::stoul(optarg));
			break;
		case 'l':
			options.list = static_cast<std::uint32_t>(std::stoul(optarg));
			break;
		default:
			return 2;
		}
	if (options.list < 1 || options.list > window - report)
		return 2;
	if (optind < argc)
		options.server = argv[optind];
	End end(options);
	end.meet(options);
	return options.server.empty() ? serve(end, options) : call(end, options);
}
