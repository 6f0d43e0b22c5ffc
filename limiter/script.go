package limiter

import "funnel/limiter/internal/redis"

// Script returns CL.RESERVE, CL.TAKE, CL.PEEK, CL.CHARGE and CL.REFUND in Lua, for EVAL in Redis
// from 6.2 on and in Valkey. It is the text of the file funnels.lua, which clients in any language
// may load.
//
// EVAL takes the keys of 1 to 64 rows, which are funnels, slots or quotas. The arguments are the
// operation (reserve, take, peek, charge or refund), then the four words of each row that follow
// its key, such as capacity, count, period and quantity, and last, if wanted, max_wait for reserve
// or tat for refund. The reply is as from the command, but integers of more than 15 digits are
// strings.
//
// The script refuses numbers with which doubles cannot compute exactly. A number is refused if it
// is above 4,000,000 and its span is 104 days or more:
//
//	count                          the period
//	capacity                       the time in which a full funnel drains
//	quantity, but not of take      the time in which the tokens leak
//
// The limit of a quota, its quantity and the sum that is used are refused above 2^53.
func Script() string { return redis.Script() }
