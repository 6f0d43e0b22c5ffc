package window

import "funnel/gcra/local"

// Key returns the key of the sorted set for user and action: "hist:user:action",
// with any "%" and ":" in the user written as "%25" and "%3A", as in [local.Key].
// No two pairs share a key.
func Key(user, action string) string { return "hist:" + local.Key(user, action) }
