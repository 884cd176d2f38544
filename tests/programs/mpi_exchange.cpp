// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// mpi_exchange [BYTES]: two ranks send each other bursts of messages at once, of sizes around those where MPI changes
// its protocol, and each compares what it gets. Bursts of more bytes than that are left out.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mpi.h>
#include <vector>

namespace {

/// What is in a place of a message
std::uint8_t content(int sender, int message, std::size_t place)
{
	return static_cast<std::uint8_t>(sender * 101 + message * 31 + place * 7 + place / 251);
}

/// Returns how many messages differ.
int exchange(int rank, int count, std::size_t size)
{
	const int other = 1 - rank;
	std::vector<std::vector<std::uint8_t>> out(count), in(count);
	std::vector<MPI_Request> requests;
	int wrong = 0;

	for (int i = 0; i < count; i++) {
		out[i].resize(size);
		in[i].assign(size, 0xee);
		for (std::size_t place = 0; place < size; place++)
			out[i][place] = content(rank, i, place);
	}
	for (int i = 0; i < count; i++) {
		MPI_Request receive, send;
		MPI_Irecv(in[i].data(), static_cast<int>(size), MPI_BYTE, other, i, MPI_COMM_WORLD, &receive);
		MPI_Isend(out[i].data(), static_cast<int>(size), MPI_BYTE, other, i, MPI_COMM_WORLD, &send);
		requests.push_back(receive);
		requests.push_back(send);
	}
	MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
	for (int i = 0; i < count; i++) {
		bool same = true;
		for (std::size_t place = 0; place < size; place++)
			same = same && in[i][place] == content(other, i, place);
		wrong += !same;
	}
	return wrong;
}

} // namespace

int main(int argc, char **argv)
{
	struct Burst {
		int count;
		std::size_t size;
	};
	const Burst bursts[] = {{300, 4096}, {1000, 8}, {50, 65536}, {100, 16384}, {8, 4 << 20}, {300, 4096}};
	const std::size_t most = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : SIZE_MAX;
	int rank = 0, ranks = 0, wrong = 0, all = 0;

	MPI_Init(&argc, &argv);
	MPI_Comm_rank(MPI_COMM_WORLD, &rank);
	MPI_Comm_size(MPI_COMM_WORLD, &ranks);
	if (ranks != 2) {
		std::fprintf(stderr, "two ranks are needed, not %d\n", ranks);
		MPI_Abort(MPI_COMM_WORLD, 2);
	}
	for (const Burst &burst : bursts) {
		if (burst.count * burst.size > most)
			continue;
		const int now = exchange(rank, burst.count, burst.size);
		if (now)
			std::printf("rank %d: %d of %d messages of %zu bytes are wrong\n", rank, now, burst.count,
				burst.size);
		wrong += now;
	}
	MPI_Allreduce(&wrong, &all, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
	MPI_Finalize();
	return all ? 1 : 0;
}
