/* SPDX-License-Identifier: MIT */
#include "config.h"

#include "client/ctl/holders.h"

#include "tests/unit/test.h"

#define MAPS "7f0000000000-7f0000001000 r-xp 00000000 08:01 1234 "

TEST(libraries_of_the_gpu)
{
	check(holders_maps_line(MAPS "   /usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06\n"));
	check(holders_maps_line(MAPS "/usr/lib/libcuda.so.1"));
	check(holders_maps_line(MAPS "/opt/my venv/nvidia/nccl/lib/libnccl.so.2\n"));
	check(holders_maps_line(MAPS "/tmp/libnccl.so.2 (deleted)\n"));
}

TEST(others)
{
	check(!holders_maps_line(MAPS "/usr/lib/libcudart.so.13\n"));
	check(!holders_maps_line(MAPS "/usr/lib/libcuda.so.1/x\n"));
	check(!holders_maps_line(MAPS "/opt/libcuda.so.1.d/python3\n"));
	check(!holders_maps_line(MAPS "[heap]\n"));
	check(!holders_maps_line(MAPS "\n"));
	check(!holders_maps_line(""));
}

TEST_MAIN
