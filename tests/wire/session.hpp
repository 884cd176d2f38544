// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
// kiwarp as the raw peer meets it: listening or connecting, with memory that the peer may reach.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "../lib/connection.hpp"
#include "peer.hpp"

// Data to send: a few, and as many as wanted
inline const Bytes hello = {'h', 'e', 'l', 'l', 'o'};

inline Bytes pattern(size_t n)
{
	Bytes b(n);

	for (size_t i = 0; i < n; i++)
		b[i] = uint8_t(i * 7 >> 1 ^ i);
	return b;
}

// A parameter of the module, for a scope
struct Parameter : vt::Parameters {
	Parameter(const std::string &name, const std::string &value)
		: Parameters(std::map<std::string, std::string>{{name, value}})
	{
	}
};

// The MTU of both ends' interfaces, for a scope
class Mtu {
public:
	explicit Mtu(int value);
	~Mtu();
	Mtu(const Mtu &) = delete;
	Mtu &operator=(const Mtu &) = delete;
	// At kiwarp's listening end alone
	static void server(int value);

private:
	int client_before, server_before;
};

// A TCP socket where kiwarp will connect to
class RawListener {
public:
	RawListener();
	~RawListener();
	RawListener(const RawListener &) = delete;
	RawListener &operator=(const RawListener &) = delete;

	int take() const;
	uint16_t port;

private:
	int fd;
};

// A TCP connection to where kiwarp listens; "prepare" gets the socket before
int dial(uint16_t port, const std::function<void(int fd)> &prepare = nullptr);

// Where kiwarp listens in all tests
const vt::Listener &listener();
// The next connection request there, not yet accepted, with its own events
struct Request {
	std::unique_ptr<vt::Side> side;
	vt::Event event;
};
Request next_request(const vt::Options &options = {});
std::unique_ptr<vt::Side> accept_next(
	const vt::Options &options = {}, const std::function<void(const vt::Side &)> &prepare = nullptr);
// Whether rdma_cm has nothing to say for that long
bool no_event(const vt::EventChannel &events, int milliseconds);

// Memory with a region inside; the memory around the region may never change
class Target {
public:
	static constexpr size_t margin = 333, size = 16384;

	explicit Target(ibv_pd *pd, int access = vt::all_access);
	Target(const Target &) = delete;
	Target &operator=(const Target &) = delete;

	uint32_t stag() const { return key; }
	uint64_t address(size_t offset = 0) const;
	Bytes octets(size_t offset, size_t n) const;
	void set(size_t offset, const Bytes &b);
	// Whether everything but these octets of the region is as it was
	bool untouched_but(size_t offset = 0, size_t n = 0) const;
	ibv_sge sge(size_t offset, size_t n) const;
	void deregister() { mr.reset(); }
	static Bytes fresh(size_t offset, size_t n);

private:
	Bytes memory;
	vt::Mr mr;
	uint32_t key;
};

struct Terms {
	bool kiwarp_connects = false;
	bool crc = true;
	bool markers_in = false;  // we want them
	bool markers_out = false; // kiwarp does, by its parameter
	uint8_t reads = 4;	  // that may be outstanding
	int receives = 4;	  // that kiwarp posts
	uint32_t receive_size = 64;
	int access = vt::all_access; // of the target
	bool extensions = false;     // we take messages of RFC 7306
	std::function<void(int fd)> socket = nullptr;

	std::string text() const;
};

std::vector<Terms> both_crcs();
// Both settings of CRC, and both roles
std::vector<Terms> all_terms();

class Session {
public:
	explicit Session(const Terms &wanted);

	const Terms terms;
	Peer &peer() { return *raw; }
	vt::Side &kiwarp() { return *side; }
	// What the peer may reach
	Target &target() { return *region; }
	// What kiwarp has for its own requests
	Target &own() { return *source; }

	// Whether receive request n has exactly this, and nothing behind it in its buffer
	bool has_received(int n, const Bytes &b) const;
	// Whether no octet has come into the receives' buffers, but for this many in the first one
	bool nothing_received(size_t but = 0) const;

	// Posts receive request n again
	void repost(int n);

	// An empty Write: kiwarp may send from now on
	void greet() { raw->send(tagged_segment(op_write, 0, 0, {})); }
	// Sends an empty message as this one, and waits for its completion: all that was sent before has been received
	void sync(uint32_t number);
	// kiwarp has to send exactly this, then its FIN, and to complete nothing with success
	void expect_terminate(const Bytes &terminate);
	// The peer closes in good order, and so does kiwarp
	void close();

private:
	void connect(const vt::Options &options);
	void accept(const vt::Options &options);
	void make_memory(const vt::Side &s);
	void post_receive(const vt::Side &s, int n);

	std::optional<Parameter> markers;
	std::unique_ptr<Peer> raw;
	std::unique_ptr<vt::Side> side;
	std::unique_ptr<Target> region, source, receive;
};

// Runs a scenario for each of the terms, and each way to cut what it delivers. "few" is whole and octet by octet, for
// variants of what is cut everywhere already, and where kiwarp connects, since that makes no difference any more.
enum class Cuts { all, few };
void in_every_way(
	const std::vector<Terms> &terms, const std::function<void(Session &, Cut &)> &scenario, Cuts cuts = Cuts::all);

// A segment that has to end the connection
struct Refusal {
	Code code = {};
	Headers headers = Headers::ddp;
	std::function<Bytes(Session &)> segment = nullptr;
	// What is good before it
	std::function<void(Session &)> before = nullptr;
	Spoil spoil = {};
	// What the next Send would be
	uint32_t next = 1;
	// Octets of the target that the good part has changed, from its beginning
	size_t written = 0;
	// Octets of the first receive request that may have changed
	size_t received = 0;
};

// In every way: the segment is answered by the right Terminate with the right headers; nothing of it, and nothing of
// the good and bad segments behind it, has an effect.
void refused(const Refusal &refusal, const std::vector<Terms> &terms = all_terms(), Cuts cuts = Cuts::all);
// A variant of it
void refused_too(const Refusal &refusal, const std::vector<Terms> &terms = all_terms());
