// SPDX-License-Identifier: GPL-2.0 OR BSD-2-Clause
//
// Memory regions: what can be registered, and with which rights.
#include <cerrno>
#include <fcntl.h>
#include <linux/udmabuf.h>
#include <set>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../lib/support.hpp"

namespace vt {
namespace {

/// Anonymous pages.
class Pages {
public:
	explicit Pages(std::size_t size, int protection = PROT_READ | PROT_WRITE)
		: size_(size),
		  address_(mmap(nullptr, size, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))
	{
	}
	~Pages() { munmap(address_, size_); }
	Pages(const Pages &) = delete;
	Pages &operator=(const Pages &) = delete;

	std::uint8_t *at(std::size_t offset = 0) const { return static_cast<std::uint8_t *>(address_) + offset; }

private:
	std::size_t size_;
	void *address_;
};

class MemoryRegion : public testing::Test {
protected:
	Mr reg(void *address, std::size_t length, int access) const
	{
		return Mr(ibv_reg_mr(pd.get(), address, length, access));
	}

	void refused(void *address, std::size_t length, int access, int error) const
	{
		errno = 0;
		EXPECT_EQ(reg(address, length, access), nullptr) << length << " octets, access " << access;
		EXPECT_EQ(errno, error) << length << " octets, access " << access;
	}

	Pd pd = make_pd(server_device());
	Pages pages{64 * 4096};
};

TEST_F(MemoryRegion, KeysAreOneStag)
{
	const Mr mr = reg(pages.at(), 4096, all_access);

	ASSERT_NE(mr, nullptr);
	EXPECT_EQ(mr->lkey, mr->rkey);
	EXPECT_NE(mr->lkey >> 8, 0);
	EXPECT_EQ(mr->addr, pages.at());
	EXPECT_EQ(mr->length, 4096);
	EXPECT_EQ(mr->pd, pd.get());
}

TEST_F(MemoryRegion, AnyOffsetAndLengthCanBeRegistered)
{
	for (std::size_t offset : {0, 1, 7, 4095, 4096})
		for (std::size_t length : {1, 2, 4095, 4096, 4097, 100000})
			EXPECT_NE(reg(pages.at(offset), length, all_access), nullptr) << offset << " " << length;
}

TEST_F(MemoryRegion, LengthZeroIsRefused)
{
	refused(pages.at(), 0, all_access, EINVAL);
}

TEST_F(MemoryRegion, EveryUsefulSetOfRightsIsTaken)
{
	for (int access : {0, int{IBV_ACCESS_LOCAL_WRITE}, int{IBV_ACCESS_REMOTE_READ},
		     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		     all_access, all_access | IBV_ACCESS_RELAXED_ORDERING})
		EXPECT_NE(reg(pages.at(), 100, access), nullptr) << access;
}

TEST_F(MemoryRegion, RemoteWriteWithoutLocalWriteIsRefused)
{
	refused(pages.at(), 4096, IBV_ACCESS_REMOTE_WRITE, EINVAL);
	refused(pages.at(), 4096, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ, EINVAL);
}

// There is no hardware that DMA could be done for, and what exporters lend may have no page that a CPU can reach.
TEST_F(MemoryRegion, DmabufsAreRefused)
{
	const int memory = memfd_create("dmabuf", MFD_ALLOW_SEALING | MFD_CLOEXEC);
	const int maker = open("/dev/udmabuf", O_RDWR | O_CLOEXEC);
	int dmabuf = memory;

	ASSERT_EQ(ftruncate(memory, 4096), 0);
	ASSERT_EQ(fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK), 0);
	if (maker >= 0) {
		const udmabuf_create what = {
			.memfd = static_cast<__u32>(memory), .flags = UDMABUF_FLAGS_CLOEXEC, .offset = 0, .size = 4096};

		dmabuf = ioctl(maker, UDMABUF_CREATE, &what);
		ASSERT_GE(dmabuf, 0);
	}
	errno = 0;
	EXPECT_EQ(ibv_reg_dmabuf_mr(pd.get(), 0, 4096, 0, dmabuf, all_access), nullptr);
	EXPECT_EQ(errno, EOPNOTSUPP);
	for (const int fd : {memory, maker, dmabuf})
		close(fd);
}

TEST_F(MemoryRegion, UnknownRightsAreRefused)
{
	for (int bit : {8, 9, 10, 12, 19})
		EXPECT_EQ(reg(pages.at(), 4096, 1 << bit), nullptr) << bit;
}

TEST_F(MemoryRegion, UnmappedMemoryIsRefused)
{
	auto *hole = new Pages(16 * 4096);
	std::uint8_t *gone = hole->at();
	delete hole;
	refused(gone, 4096, all_access, EFAULT);
	refused(nullptr, 4096, all_access, EFAULT);
}

TEST_F(MemoryRegion, RangeThatRunsIntoAHoleIsRefused)
{
	munmap(pages.at(32 * 4096), 4096);
	refused(pages.at(31 * 4096), 2 * 4096, all_access, EFAULT);
	EXPECT_NE(reg(pages.at(31 * 4096), 4096, all_access), nullptr);
}

TEST_F(MemoryRegion, RangeThatWrapsIsRefused)
{
	errno = 0;
	EXPECT_EQ(reg(pages.at(), SIZE_MAX, all_access), nullptr);
	EXPECT_NE(errno, 0);
	EXPECT_EQ(reg(pages.at(), SIZE_MAX - reinterpret_cast<std::uintptr_t>(pages.at()) + 1, all_access), nullptr);
}

TEST_F(MemoryRegion, ReadOnlyMemoryCannotBeWritable)
{
	const Pages constant(4096, PROT_READ);

	refused(constant.at(), 4096, IBV_ACCESS_LOCAL_WRITE, EFAULT);
	refused(constant.at(), 4096, all_access, EFAULT);
}

TEST_F(MemoryRegion, MemoryWithoutAccessIsRefused)
{
	const Pages none(4096, PROT_NONE);

	refused(none.at(), 4096, IBV_ACCESS_LOCAL_WRITE, EFAULT);
}

TEST_F(MemoryRegion, SamePagesCanBeRegisteredOften)
{
	std::set<std::uint32_t> keys;
	std::vector<Mr> regions;

	for (int i = 0; i < 64; i++) {
		regions.push_back(reg(pages.at(), 64 * 4096, all_access));
		ASSERT_NE(regions.back(), nullptr);
		keys.insert(regions.back()->rkey >> 8);
	}
	EXPECT_EQ(keys.size(), regions.size());
}

TEST_F(MemoryRegion, StagsAreNotSequential)
{
	std::vector<Mr> regions;
	int successors = 0;

	for (int i = 0; i < 32; i++) {
		regions.push_back(reg(pages.at(), 4096, all_access));
		ASSERT_NE(regions.back(), nullptr);
		if (i && (regions[i]->rkey >> 8) == (regions[i - 1]->rkey >> 8) + 1)
			successors++;
	}
	EXPECT_LT(successors, 4);
}

TEST_F(MemoryRegion, RegionSurvivesItsMapping)
{
	auto *short_lived = new Pages(8 * 4096);
	const Mr mr = reg(short_lived->at(), 8 * 4096, all_access);
	delete short_lived;
	EXPECT_NE(mr, nullptr);
}

TEST_F(MemoryRegion, RegistrationsComeAndGo)
{
	for (int i = 0; i < 200; i++)
		ASSERT_NE(reg(pages.at(i), 10 * 4096, all_access), nullptr);
}

} // namespace
} // namespace vt
