package local

import "strings"

// Key returns the key of the funnel in which user does action: "user:action", with
// any "%" and ":" in the user written as "%25" and "%3A". The first colon
// ends the user, so no two pairs share a key.
func Key(user, action string) string {
	return userEscaper.Replace(user) + ":" + action
}

var userEscaper = strings.NewReplacer("%", "%25", ":", "%3A")
