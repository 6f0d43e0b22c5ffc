package limiter

import _ "embed"

// The exact part decides every call. The short part, in front of it, replies to the
// calls that need no more than the doubles of Lua, and leaves the others to it.
var (
	//go:embed throttle_short.lua
	shortPart string
	//go:embed throttle_exact.lua
	exactPart string
)
