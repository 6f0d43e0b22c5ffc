package limiter

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

// Script is CL.THROTTLE in Lua, for EVAL in Redis from 6.2 on and Valkey. [Limiter]
// uses it where the module is missing; clients in other languages can, too. It takes
// one key and the arguments of CL.THROTTLE, and replies the five integers of
// CL.THROTTLE, and then the last two again as strings, in nanoseconds.
var Script = shortPart + exactPart

// The exact part decides every call. The short part, in front of it, replies to the
// calls that need no more than the doubles of Lua, and leaves the others to it.
var (
	//go:embed throttle_short.lua
	shortPart string
	//go:embed throttle_exact.lua
	exactPart string
)

var script = redis.NewScript(Script)
