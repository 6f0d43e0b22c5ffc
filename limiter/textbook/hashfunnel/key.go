package hashfunnel

import "funnel/gcra/local"

// Key returns the key of the hash for user and action: "funnel:user:action", with
// any "%" and ":" in the user written as "%25" and "%3A", as in [local.Key]. No
// two pairs share a key, and none is that of a string that CL.THROTTLE keeps under
// "user:action".
func Key(user, action string) string { return "funnel:" + local.Key(user, action) }
