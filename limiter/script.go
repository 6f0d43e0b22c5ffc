package limiter

import (
	_ "embed"

	"github.com/redis/go-redis/v9"
)

// Script returns CL.RESERVE, CL.TAKE, CL.PEEK, CL.CHARGE and CL.REFUND in Lua, for EVAL in
// Redis from 6.2 on and Valkey. It is the file funnels.lua, which clients in any language may
// load. It takes the keys of 1 to 64 funnels; then reserve, take, peek, charge or refund; then
// capacity, count, period and quantity for each key; and, if wanted, for reserve max_wait, and
// for refund tat. It replies what the command does, but integers of more than 15 digits as
// strings. It refuses what doubles cannot compute exactly: a number above 4,000,000 whose time is
// 104 days or more, be it count with period, capacity with the time in which a full funnel drains,
// or quantity, but for take, with the time in which the tokens leak.
func Script() string { return completeText }

var (
	//go:embed funnels.lua
	completeText string
	//go:embed take.lua
	takeText string
)

// A script as it is sent. Strings that become any would be allocated for each call.
type script struct{ text, hash any }

var takeScript, completeScript = newScript(takeText), newScript(completeText)

func newScript(text string) script { return script{text, redis.NewScript(text).Hash()} }
