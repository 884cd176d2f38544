// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// The calls of rdma_cm, while one allocation after the other fails under them.
#include <cerrno>
#include <poll.h>

#include "../lib/connection.hpp"
#include "every_fault.hpp"

namespace faults {

namespace {

// What TCP says when memory is short: it takes a port that it can't note down for one in use.
const std::vector<int> socket_errors = {ENOMEM, ENOBUFS, EADDRINUSE};

vt::Id make_id(const vt::EventChannel &events)
{
	rdma_cm_id *id = nullptr;

	if (rdma_create_id(events.get(), &id, nullptr, RDMA_PS_TCP))
		vt::fail("rdma_create_id", errno);
	return vt::Id(id);
}

int result(int returned)
{
	return returned ? errno : 0;
}

// A client that is ready, and the listener that it calls
struct Ends {
	vt::Listener listener;
	std::unique_ptr<vt::Side> client;
	std::vector<std::unique_ptr<vt::Side>> accepted;

	Ends()
	{
		vt::Caller caller(listener.port());

		client = std::make_unique<vt::Side>(std::move(caller.id), caller.events, vt::Options{});
	}
	~Ends()
	{
		client.reset();
		accepted.clear();
	}
	Ends(const Ends &) = delete;
	Ends &operator=(const Ends &) = delete;

	int connect() const
	{
		rdma_conn_param param = vt::parameters({}, 16);

		return result(rdma_connect(client->id(), &param));
	}
	std::unique_ptr<vt::Side> request() const
	{
		return std::make_unique<vt::Side>(listener.request().first, listener.shared_events(), vt::Options{});
	}
	static int accept(const vt::Side &side)
	{
		rdma_conn_param param = vt::parameters({}, 16);

		return result(rdma_accept(side.id(), &param));
	}

	// How the attempt ends, where the server accepts. It may see more than one request: the client tries twice.
	rdma_cm_event_type outcome()
	{
		const int fd = client->events().get()->fd;

		vt::wait_until(
			[&] {
				if (const auto event = listener.events().poll(RDMA_CM_EVENT_CONNECT_REQUEST)) {
					accepted.push_back(std::make_unique<vt::Side>(
						vt::Id(event->id), listener.shared_events(), vt::Options{}));
					accept(*accepted.back());
				}
				return vt::readable(fd);
			},
			"the end of the attempt");
		return client->events().wait_any(client->id()).type;
	}
};

bool is_failure(rdma_cm_event_type type)
{
	return type == RDMA_CM_EVENT_CONNECT_ERROR || type == RDMA_CM_EVENT_UNREACHABLE ||
	       type == RDMA_CM_EVENT_REJECTED;
}

// What is true of an attempt whatever failed: it ends, and not because its time was up; a connection that came up
// works, or breaks at once where the server couldn't accept any more when it had answered.
void expect_end(Ends &ends, bool may_break = false)
{
	const rdma_cm_event_type end = ends.outcome();

	EXPECT_NE(end, RDMA_CM_EVENT_UNREACHABLE);
	if (is_failure(end))
		return;
	ASSERT_EQ(end, RDMA_CM_EVENT_ESTABLISHED);
	ASSERT_FALSE(ends.accepted.empty());
	const vt::Side &server = *ends.accepted.back();
	ASSERT_EQ(server.receive({}, 1), 0);
	ASSERT_EQ(ends.client->send({}, {.id = 2}), 0);
	const ibv_wc sent = ends.client->sent();
	if (may_break && sent.status != IBV_WC_SUCCESS) {
		ends.client->wait_disconnected();
		return;
	}
	EXPECT_WC(sent, 2, IBV_WC_SUCCESS);
	EXPECT_WC(server.received(), 1, IBV_WC_SUCCESS);
}

} // namespace

TEST(CmFaults, Bind)
{
	vt::EventChannel events;
	vt::Id id;

	every_fault(Allocates::nothing, {.prepare =
							[&] {
								const vt::InNamespace inside(vt::server_end().netns);

								id = make_id(events);
							},
						.call =
							[&] {
								vt::Where where = vt::server_end();
								const vt::InNamespace inside(where.netns);

								return result(rdma_bind_addr(id.get(), where.sa(0)));
							},
						.clean =
							[&] {
								id.reset();
							}});
}

TEST(CmFaults, Listen)
{
	vt::EventChannel events;
	vt::Id id;

	every_fault(Allocates::something, {.prepare =
							  [&] {
								  vt::Where where = vt::server_end();
								  const vt::InNamespace inside(where.netns);

								  id = make_id(events);
								  ASSERT_EQ(rdma_bind_addr(id.get(), where.sa(0)), 0);
							  },
						  .call = [&] { return result(rdma_listen(id.get(), 8)); },
						  .clean = [&] { id.reset(); },
						  .errors = socket_errors});
}

TEST(CmFaults, DestroyListener)
{
	std::unique_ptr<vt::Listener> listener;

	every_fault(Allocates::nothing, {.prepare = [&] { listener = std::make_unique<vt::Listener>(); },
						.call =
							[&] {
								listener.reset();
								return 0;
							}});
}

TEST(CmFaults, Resolve)
{
	const vt::Listener listener;
	std::unique_ptr<vt::Caller> caller;

	every_fault(Allocates::nothing, {.call =
							[&] {
								caller = std::make_unique<vt::Caller>(listener.port());
								return 0;
							},
						.clean =
							[&] {
								caller.reset();
							}});
}

TEST(CmFaults, Connect)
{
	std::unique_ptr<Ends> ends;

	every_fault(Allocates::something, {.prepare = [&] { ends = std::make_unique<Ends>(); },
						  .call = [&] { return ends->connect(); },
						  .after = [&] { expect_end(*ends); },
						  .clean = [&] { ends.reset(); },
						  .errors = socket_errors});
}

// A server that couldn't accept has lost the attempt, and the client is told.
TEST(CmFaults, Accept)
{
	std::unique_ptr<Ends> ends;
	int error = 0;

	every_fault(Allocates::something, {.prepare =
							  [&] {
								  ends = std::make_unique<Ends>();
								  ASSERT_EQ(ends->connect(), 0);
								  ends->accepted.push_back(ends->request());
							  },
						  .call = [&] { return error = Ends::accept(*ends->accepted.back()); },
						  .clean =
							  [&] {
								  expect_end(*ends, error != 0);
								  ends.reset();
							  },
						  .errors = {ENOMEM}});
}

TEST(CmFaults, Reject)
{
	std::unique_ptr<Ends> ends;
	vt::Id request;

	every_fault(
		Allocates::something, {.prepare =
						      [&] {
							      ends = std::make_unique<Ends>();
							      ASSERT_EQ(ends->connect(), 0);
							      request = ends->listener.request().first;
						      },
					      .call = [&] { return result(rdma_reject(request.get(), nullptr, 0)); },
					      .after = [&] { EXPECT_TRUE(is_failure(ends->outcome())); },
					      .clean =
						      [&] {
							      request.reset();
							      ends.reset();
						      }});
}

// However little memory there is, both ends learn of the close; TCP's own messages may be lost, hence in time.
TEST(CmFaults, Disconnect)
{
	std::unique_ptr<vt::Pair> pair;

	every_fault(Allocates::something, {.prepare = [&] { pair = std::make_unique<vt::Pair>(); },
						  .call = [&] { return result(rdma_disconnect(pair->a().id())); },
						  .after =
							  [&] {
								  pair->b().wait_disconnected();
								  rdma_disconnect(pair->b().id());
								  pair->a().wait_disconnected();
							  },
						  .clean =
							  [&] {
								  pair.reset();
							  }});
}

TEST(CmFaults, ModifyToError)
{
	std::unique_ptr<vt::Pair> pair;

	// TCP's answer to a segment that comes in while the call has the socket
	every_fault(Allocates::maybe, {.prepare = [&] { pair = std::make_unique<vt::Pair>(); },
					      .call = [&] { return pair->a().modify(IBV_QPS_ERR); },
					      .after = [&] { pair->a().wait_disconnected(); },
					      .clean =
						      [&] {
							      pair.reset();
						      }});
}

TEST(CmFaults, DestroyConnectedQp)
{
	std::unique_ptr<vt::Pair> pair;

	// TCP's reset, if data are on their way
	every_fault(Allocates::maybe, {.prepare = [&] { pair = std::make_unique<vt::Pair>(); },
					      .call =
						      [&] {
							      pair->a().destroy_qp();
							      return 0;
						      },
					      .clean =
						      [&] {
							      pair.reset();
						      }});
}

} // namespace faults
