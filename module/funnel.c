#include "kind.h"

/* A funnel is a string: its TAT in decimal. The key expires when the funnel is empty. */

/* The receipt. */
static struct text funnel_last_element(const struct row *row)
{
    return row->funnel.has_receipt ? digits_of(&row->string.value) : (struct text){"0", 1};
}

const struct kind_functions funnel_functions = {string_key_read, string_key_write, string_key_replicate,
                                                string_key_notify, funnel_last_element};
