package limiter

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

// Script returns CL.RESERVE, CL.PEEK, CL.CHARGE and CL.REFUND in Lua, for EVAL in Redis
// from 6.2 on and Valkey. [Limiter] uses it where the module is missing; clients in other
// languages can, too. It takes the keys of 1 to 64 funnels; then reserve, peek, charge or
// refund; then capacity, count, period and quantity for each key; and for reserve, if
// wanted, max_wait. It replies what the command does, but integers of more than 15 digits
// as strings.
func Script() string { return shortPart + exactPart }

// The exact part decides every call. The short part, in front of it, replies to the
// calls that need no more than the doubles of Lua, and leaves the others to it.
var (
	//go:embed funnels_short.lua
	shortPart string
	//go:embed funnels_exact.lua
	exactPart string
)

// What is sent. Strings that become any would be allocated for each call.
var (
	scriptText any = Script()
	scriptHash any = redis.NewScript(Script()).Hash()
)
