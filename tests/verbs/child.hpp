// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Other processes for the tests: this program again, told by its arguments to play a part.
#pragma once

#include <cstdint>
#include <functional>
#include <infiniband/verbs.h>
#include <string>
#include <sys/types.h>
#include <vector>

namespace vt {

/// Plays the part that the arguments of main() name; -1 if they name none.
int play_part(const std::vector<std::string> &arguments);

/// Removes the device that it is using by a command, and sees what the verbs say then (removal_test.cpp).
int part_bereaved(const std::string &removal);

/// Gives all rights away, takes as much of the device's memory as it gets, and sees where that ends (limits_test.cpp).
int part_limited(const std::string &device, const std::string &what);
/// Enters a control group that allows for eight objects, and counts them (limits_test.cpp).
int part_grouped(const std::string &device, const std::string &group);
/// Tries to connect a QP that isn't its own (limits_test.cpp).
int part_thief(std::uint16_t port, std::uint32_t qp_num);

/// Binds a window, which is made before or behind its region, and stops itself (window_test.cpp).
int part_windows(const std::string &first);

/// Imports the device whose descriptor comes from a socket, and has its memory written to (import_test.cpp).
int part_importer(int socket);

class Side;

/// A doorbell as the provider rings it, whatever is in the ring.
void ring_doorbell(const Side &side, bool send);
void ring_shared_doorbell(const ibv_srq *srq);

/// Status of a child of fork(2) that does something, and says whether it went well; it ends without the tests' own
/// destructors. What is thrown there, and failures that GoogleTest saw there, count as well.
int forked(const std::function<bool()> &work);

/// A child that plays a part. It is killed, if it still runs, when the object goes.
class Child {
public:
	explicit Child(std::vector<std::string> arguments);
	~Child();
	Child(const Child &) = delete;
	Child &operator=(const Child &) = delete;

	pid_t pid() const { return pid_; }
	bool running();
	/// Waits until it has stopped itself (SIGSTOP).
	void wait_stopped();
	/// Has it go on after that.
	void go_on() const;
	/// SIGKILL, and waits until everything that it held is given back.
	void kill();
	/// Of wait(2), once it no longer runs.
	int status() const { return status_; }

private:
	pid_t pid_;
	bool reaped_ = false;
	int status_ = 0;
};

} // namespace vt
