/*
 * utf8_wide.h
 *		Whether a text is UTF-8, on processors with AVX-512.
 */
#ifndef TIPPLE_UTF8_WIDE_H
#define TIPPLE_UTF8_WIDE_H

#include "page_rows.h"

#ifdef TIPPLE_HAS_WIDE_LOOPS
/* Whether a text is what the server takes as UTF-8 (RFC 3629, without NUL). Needs has_wide_loops(); reads nothing else. */
extern bool is_utf8_wide(const char *text, int length);
#endif

#endif
