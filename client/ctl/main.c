/* SPDX-License-Identifier: MIT */
/* cudaenvctl: everything is in libctl, so that tests can link it. */
#include "client/ctl/ctl.h"

int main(int argc, char *argv[])
{
	return ctl_main(argc, argv);
}
