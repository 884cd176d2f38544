/* SPDX-License-Identifier: GPL-2.0 */
/* The verbs of a device, and its beginning and end. */
#ifndef KIWARP_DEVICE_H
#define KIWARP_DEVICE_H

/** kiw_device_init() - register the link type; 0 or a negative errno */
int kiw_device_init(void);

/** kiw_device_exit() - end all devices; waits for calls under way, see main.c */
void kiw_device_exit(void);

#endif /* KIWARP_DEVICE_H */
