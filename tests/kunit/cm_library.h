/* SPDX-License-Identifier: GPL-2.0 */
#ifndef KIWARP_KUNIT_CM_LIBRARY_H
#define KIWARP_KUNIT_CM_LIBRARY_H

/* Comparisons with other connections so far, and looks at their works */
extern unsigned int cm_steps;

#endif
