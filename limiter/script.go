package limiter

import _ "embed"

// Script returns CL.RESERVE, CL.TAKE, CL.PEEK, CL.CHARGE and CL.REFUND in Lua, for EVAL in
// Redis from 6.2 on and Valkey. It is the file funnels.lua, which clients in any language may
// load. It takes the keys of 1 to 64 rows: funnels, slots or quotas; then reserve, take, peek, charge or refund; then
// the four words of each row behind its key, such as capacity, count, period and quantity; and, if wanted, max_wait for
// reserve, and tat for refund. It replies what the command does, but integers of more than 15 digits as
// strings.
//
// It refuses what doubles cannot compute exactly. A number is refused if it is above 4,000,000 and its span is 104 days
// or more:
//
//	count                          the period
//	capacity                       the time in which a full funnel drains
//	quantity, but not of take      the time in which the tokens leak
//
// A quota's limit, quantity and used sum are refused above 2^53.
func Script() string { return completeText }

//go:embed funnels.lua
var completeText string
