// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// gloo_reduce RANK RANKS FOLDER DEVICE GID-INDEX: gloo's transport ibverbs, which connects queue pairs by their
// numbers. The ranks find each other by files in FOLDER, and sum up vectors of several lengths; rank 0 then tells all
// of them its own.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier_all_to_all.h>
#include <gloo/broadcast_one_to_all.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/ibverbs/device.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

/// What a rank brings to a place; sums of 16 ranks are exact.
std::int64_t content(int rank, std::size_t place)
{
	return (rank + 1) * 1000003LL + static_cast<std::int64_t>(place) * 31;
}

/// Of one rank. The algorithms stay: their destructors throw while a completion of theirs isn't handled yet, for which
/// a program can't wait.
class Rank {
public:
	Rank(int rank, int ranks, const char *folder, const char *device, int gid)
		: store(folder),
		  context(std::make_shared<gloo::rendezvous::Context>(rank, ranks))
	{
		auto transport = gloo::transport::ibverbs::CreateDevice({device, 1, gid});
		context->connectFullMesh(store, transport);
	}

	void reduce(std::size_t length)
	{
		std::vector<std::int64_t> &values = room(length);
		gloo::Algorithm &all = keep<gloo::AllreduceRingChunked<std::int64_t>>(
			std::vector<std::int64_t *>{values.data()}, static_cast<int>(length));

		for (int round = 0; round < 10; round++) {
			for (std::size_t i = 0; i < length; i++)
				values[i] = content(context->rank, i) + round;
			all.run();
			for (std::size_t i = 0; i < length; i++) {
				std::int64_t sum = 0;
				for (int rank = 0; rank < context->size; rank++)
					sum += content(rank, i) + round;
				wrong += values[i] != sum;
			}
		}
	}

	void broadcast(std::size_t length)
	{
		std::vector<std::int64_t> &values = room(length);

		for (std::size_t i = 0; i < length; i++)
			values[i] = content(context->rank, i);
		keep<gloo::BroadcastOneToAll<std::int64_t>>(std::vector<std::int64_t *>{values.data()}, length).run();
		for (std::size_t i = 0; i < length; i++)
			wrong += values[i] != content(0, i);
	}

	/// Returns the status, when all ranks have come here.
	int end()
	{
		std::vector<std::string> all;

		for (int rank = 0; rank < context->size; rank++)
			all.push_back("end" + std::to_string(rank));
		keep<gloo::BarrierAllToAll>().run();
		store.set(all[context->rank], {'x'});
		store.wait(all);
		std::printf("rank %d of %d: %zu values are wrong\n", context->rank, context->size, wrong);
		return wrong ? 1 : 0;
	}

private:
	std::vector<std::int64_t> &room(std::size_t length)
	{
		rooms.push_back(std::make_unique<std::vector<std::int64_t>>(length));
		return *rooms.back();
	}

	template <typename Algorithm, typename... Arguments>
	gloo::Algorithm &keep(const Arguments &...arguments)
	{
		kept.push_back(std::make_unique<Algorithm>(context, arguments...));
		return *kept.back();
	}

	gloo::rendezvous::FileStore store;
	std::shared_ptr<gloo::rendezvous::Context> context;
	std::vector<std::unique_ptr<std::vector<std::int64_t>>> rooms;
	std::vector<std::unique_ptr<gloo::Algorithm>> kept;
	std::size_t wrong = 0;
};

int number(const char *text, int least, int most)
{
	char *end = nullptr;
	const long value = std::strtol(text, &end, 10);

	if (end == text || *end || value < least || value > most)
		throw std::invalid_argument(std::string(text) + " is no number that is expected here");
	return static_cast<int>(value);
}

int run(char **argv)
{
	const int ranks = number(argv[2], 2, 16);
	auto *rank = new Rank(number(argv[1], 0, ranks - 1), ranks, argv[3], argv[4], number(argv[5], 0, 255));

	for (const std::size_t length : {1, 1000, 100000, 1000000}) {
		rank->reduce(length);
		rank->broadcast(length);
	}
	const int status = rank->end();
	(void)std::fflush(nullptr);
	std::_Exit(status);
}

} // namespace

int main(int argc, char **argv)
{
	if (argc != 6)
		return std::fprintf(stderr, "usage: gloo_reduce RANK RANKS FOLDER DEVICE GID-INDEX\n"), 2;
	try {
		return run(argv);
	} catch (const std::exception &error) {
		std::fprintf(stderr, "%s\n", error.what());
		return 1;
	}
}
