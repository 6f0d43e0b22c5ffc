// What calls with quotas reply and store.

package command_test

import "funnel/internal/contract"

// quotaStories are more stories. The state of a quota is what is used, and when its key expires.
var quotaStories = map[string][]step{
	"a quota is used until its period ends, and then anew": {
		{"0s", "cl.reserve k 10 UNTIL ^60s 4", "0 0 [0 10 6 0 60 ^60s]", "k=used:4@1m0s"},
		{"20s", "cl.reserve k 10 until ^60s 6 0", "0 0 [0 10 0 0 40 ^60s]", "k=used:10@1m0s"},
		{"20s", "cl.reserve k 10 Until ^60s 1", "1 40 [1 10 0 40 40]", "k=used:10@1m0s"},
		{"20s", "cl.reserve k 10 UNTIL ^60s 11", "1 -1 [1 10 0 -1 40]", "k=used:10@1m0s"},
		{"20s", "cl.reserve k 10 UNTIL ^60s 0", "0 0 [0 10 0 0 40]", "k=used:10@1m0s"},
		{"59.999999999s", "cl.reserve k 10 UNTIL ^60s 1", "1 0.000000001 [1 10 0 0.000000001 0.000000001]", "k=used:10@1m0s"},
		{"60s", "cl.reserve k 10 UNTIL ^60s 1", "ENDED until must be later than the server's clock", "k=used:10@1m0s"},
		{"60s", "cl.reserve k 10 UNTIL ^120s 1", "0 0 [0 10 9 0 60 ^120s]", "k=used:1@2m0s"},
	},
	"a limit of 0 allows nothing, and another limit applies at once": {
		{"0s", "cl.reserve k 0 UNTIL ^60s 1", "1 -1 [1 0 0 -1 0]", ""},
		{"0s", "cl.reserve k 0 UNTIL ^60s 0", "0 0 [0 0 0 0 0]", ""},
		{"0s", "cl.take k 0 UNTIL ^60s 1", "1 -1 [1 0 0 -1 0] 0", ""},
		{"0s", "cl.reserve k 5 UNTIL ^60s 5", "0 0 [0 5 0 0 60 ^60s]", "k=used:5@1m0s"},
		{"0s", "cl.reserve k 3 UNTIL ^60s 1", "1 60 [1 3 0 60 60]", "k=used:5@1m0s"},
		{"0s", "cl.reserve k 6 UNTIL ^60s 1", "0 0 [0 6 0 0 60 ^60s]", "k=used:6@1m0s"},
	},
	"a longer period applies when the one that runs has ended": {
		{"0s", "cl.reserve k 10 UNTIL ^60s 4", "0 0 [0 10 6 0 60 ^60s]", "k=used:4@1m0s"},
		{"0s", "cl.reserve k 10 UNTIL ^120s 1", "0 0 [0 10 5 0 60 ^60s]", "k=used:5@1m0s"},
		{"0s", "cl.reserve k 10 UNTIL ^9000s 6", "1 60 [1 10 5 60 60]", "k=used:5@1m0s"},
		{"0s", "cl.refund k 10 UNTIL ^120s 1", "0 0 [0 10 6 0 60]", "k=used:4@1m0s"},
		{"60s", "cl.reserve k 10 UNTIL ^120s 6", "0 0 [0 10 4 0 60 ^120s]", "k=used:6@2m0s"},
	},
	"a shorter period applies at once, even if the call is limited or asks for nothing": {
		{"0s", "cl.reserve k 9 UNTIL ^90s 4", "0 0 [0 9 5 0 90 ^90s]", "k=used:4@1m30s"},
		{"0s", "cl.peek k 9 UNTIL ^80s 6", "1 80 [1 9 5 80 80]", "k=used:4@1m30s"},
		{"0s", "cl.refund k 9 UNTIL ^80s 1", "0 0 [0 9 6 0 80]", "k=used:3@1m30s"},
		{"0s", "cl.refund k 9 UNTIL ^80s 0", "0 0 [0 9 6 0 80]", "k=used:3@1m30s"},
		{"0s", "cl.reserve k 9 UNTIL ^80s 7", "1 80 [1 9 6 80 80]", "k=used:3@1m20s"},
		{"0s", "cl.reserve k 9 UNTIL ^70s 0", "0 0 [0 9 6 0 70]", "k=used:3@1m10s"},
		{"0s", "cl.take k 3 UNTIL ^60s 1", "1 60 [1 3 0 60 60] 0", "k=used:3@1m0s"},
		{"0s", "cl.charge k 2 UNTIL ^50s 0", "0 0 [0 2 0 0 50]", "k=used:3@50s"},
		{"0s", "cl.reserve k 4 UNTIL ^40s 1 f 2 1 1 3", "1 -1 [0 4 1 0 40] [1 2 2 -1 0]", "k=used:3@40s"},
		{"0s", "cl.reserve f 2 1 1 1 k 9 UNTIL ^30s 7 l 9 UNTIL ^30s 1", "1 30 [0 2 2 0 0] [1 9 6 30 30] [0 9 9 0 0]", "k=used:3@30s"},
	},
	"an error cuts no period": {
		{"0s", "cl.reserve k 9 UNTIL ^90s 4", "0 0 [0 9 5 0 90 ^90s]", "k=used:4@1m30s"},
		{"0s", "cl.reserve k 9 UNTIL ^60s 1 l 9 UNTIL ^0s 1", "ENDED row 2: until must be later than the server's clock", "k=used:4@1m30s"},
		{"0s", "cl.charge k 9 UNTIL ^60s 1 f 1 1 9223372036 1", string(contract.ErrTAT.Of(2)), "k=used:4@1m30s"},
		{"0s", "cl.charge k 9 UNTIL ^60s 9223372036854775804", string(contract.ErrUsed), "k=used:4@1m30s"},
	},
	"take takes what is left": {
		{"0s", "cl.take k 10 UNTIL ^60s 4", "0 0 [0 10 6 0 60 ^60s] 4", "k=used:4@1m0s"},
		{"0s", "cl.take k 10 UNTIL ^60s 9223372036854775807", "1 60 [1 10 0 60 60 ^60s] 6", "k=used:10@1m0s"},
		{"1s", "cl.take k 10 UNTIL ^60s 2", "1 59 [1 10 0 59 59] 0", "k=used:10@1m0s"},
		{"1s", "cl.take k 10 UNTIL ^60s 0", "0 0 [0 10 0 0 59] 0", "k=used:10@1m0s"},
	},
	"charge uses whatever the limit": {
		{"0s", "cl.charge k 10 UNTIL ^60s 10", "0 0 [0 10 0 0 60 ^60s]", "k=used:10@1m0s"},
		{"10s", "cl.charge k 10 UNTIL ^60s 5", "1 50 [1 10 0 50 50 ^60s]", "k=used:15@1m0s"},
		{"10s", "cl.charge k 10 UNTIL ^60s 0", "0 0 [0 10 0 0 50]", "k=used:15@1m0s"},
		{"10s", "cl.charge k 0 UNTIL ^60s 1", "1 50 [1 0 0 50 50 ^60s]", "k=used:16@1m0s"},
		{"60s", "cl.charge k 10 UNTIL ^60s 1", "ENDED until must be later than the server's clock", "k=used:16@1m0s"},
	},
	"refund gives back within the period": {
		{"0s", "cl.refund k 10 UNTIL ^60s 1", "0 0 [0 10 10 0 0]", ""},
		{"0s", "cl.charge k 10 UNTIL ^60s 15", "1 60 [1 10 0 60 60 ^60s]", "k=used:15@1m0s"},
		{"0s", "cl.refund k 10 UNTIL ^60s 4", "0 0 [0 10 0 0 60]", "k=used:11@1m0s"},
		{"0s", "cl.refund k 10 UNTIL ^0s 4", "0 0 [0 10 0 0 60]", "k=used:11@1m0s"},
		{"1s", "cl.refund k 10 UNTIL ^60s 11", "0 0 [0 10 10 0 0]", ""},
		{"1s", "cl.charge k 10 UNTIL ^60s 5", "0 0 [0 10 5 0 59 ^60s]", "k=used:5@1m0s"},
		{"1s", "cl.refund k 10 UNTIL ^60s 9223372036854775807", "0 0 [0 10 10 0 0]", ""},
		{"60s", "cl.reserve k 10 UNTIL ^120s 5", "0 0 [0 10 5 0 60 ^120s]", "k=used:5@2m0s"},
		{"60s", "cl.refund k 10 UNTIL ^60s 5", "0 0 [0 10 5 0 60]", "k=used:5@2m0s"},
	},
	"a period ends to the nanosecond, and its key in the next millisecond": {
		{"0s", "cl.reserve k 9 UNTIL ^1.000000001s 1", "0 0 [0 9 8 0 1.000000001 ^1.000000001s]", "k=used:1@1.001s"},
		{"0s", "cl.reserve k 9 UNTIL ^1.0005s 1", "0 0 [0 9 7 0 1.0005 ^1.0005s]", "k=used:2@1.001s"},
		{"1s", "cl.reserve k 9 UNTIL ^2s 1", "0 0 [0 9 6 0 0.001 ^1.001s]", "k=used:3@1.001s"},
		{"1.000000001s", "cl.reserve k 9 UNTIL ^1.000000001s 1", "ENDED until must be later than the server's clock", "k=used:3@1.001s"},
		{"1.000999999s", "cl.reserve k 9 UNTIL ^2s 7", "1 0.000000001 [1 9 6 0.000000001 0.000000001]", "k=used:3@1.001s"},
		{"1.001s", "cl.peek k 9 UNTIL ^2s 7", "0 0 [0 9 9 0 0]", "k=used:3@1.001s"},
		{"1.001s", "cl.refund k 9 UNTIL ^2s 1", "0 0 [0 9 9 0 0]", "k=used:3@1.001s"},
		{"1.001s", "cl.reserve k 9 UNTIL ^2s 0", "0 0 [0 9 9 0 0]", "k=used:3@1.001s"},
		{"1.001s", "cl.reserve k 9 UNTIL ^2s 7", "0 0 [0 9 2 0 0.999 ^2s]", "k=used:7@2s"},
	},
	"a key without expiry ends at until": {
		{"0s", "set k used:5", "OK", "k=used:5"},
		{"0s", "cl.peek k 9 UNTIL ^60s 5", "1 60 [1 9 4 60 60]", "k=used:5"},
		{"0s", "cl.refund k 9 UNTIL ^60s 0", "0 0 [0 9 4 0 60]", "k=used:5"},
		{"0s", "cl.refund k 9 UNTIL ^0s 1", "0 0 [0 9 4 0 0]", "k=used:5"},
		{"0s", "cl.refund k 9 UNTIL ^60s 1", "0 0 [0 9 5 0 60]", "k=used:4@1m0s"},
		{"0s", "set l used:9", "OK", "k=used:4@1m0s l=used:9"},
		{"0s", "cl.reserve l 9 UNTIL ^60s 1", "1 60 [1 9 0 60 60]", "k=used:4@1m0s l=used:9@1m0s"},
	},
	"sums get more digits, and fewer": {
		{"0s", "cl.reserve k 100 UNTIL ^60s 9", "0 0 [0 100 91 0 60 ^60s]", "k=used:9@1m0s"},
		{"0s", "cl.reserve k 100 UNTIL ^60s 91", "0 0 [0 100 0 0 60 ^60s]", "k=used:100@1m0s"},
		{"0s", "cl.refund k 100 UNTIL ^60s 1", "0 0 [0 100 1 0 60]", "k=used:99@1m0s"},
	},
	"the largest numbers that there are": {
		{"0s", "cl.charge k 9223372036854775807 UNTIL 9223372036.854775807 9223372036854775807",
			"0 0 [0 9223372036854775807 0 0 5120927236.854775807 9223372036.854775807]", "k=used:9223372036854775807@1422479h47m16.855s"},
		{"0s", "cl.charge k 1 UNTIL ^60s 1", string(contract.ErrUsed), "k=used:9223372036854775807@1422479h47m16.855s"},
		{"0s", "cl.reserve k 9223372036854775807 UNTIL ^60s 1", "1 60 [1 9223372036854775807 0 60 60]", "k=used:9223372036854775807@1m0s"},
	},
	"quotas, slots and tokens are taken as one": {
		{"0s", "cl.reserve f 2 1 1 1 s 1 SLOTS 30 a k 9 UNTIL ^60s 4", "0 0 [0 2 1 0 1 1s] [0 1 0 0 30] [0 9 5 0 60 ^60s]", "f=1s k=used:4@1m0s s{a:30s}"},
		{"0s", "cl.reserve f 2 1 1 1 s 1 SLOTS 40 a k 9 UNTIL ^60s 6", "1 60 [0 2 1 0 1] [0 1 0 0 30 30] [1 9 5 60 60]", "f=1s k=used:4@1m0s s{a:30s}"},
		{"0s", "cl.reserve k 9 UNTIL ^60s 1 s 1 SLOTS 40 b", "1 30 [0 9 5 0 60] [1 1 0 30 30]", "f=1s k=used:4@1m0s s{a:30s}"},
		{"0s", "cl.refund s 1 SLOTS 40 a k 9 UNTIL ^60s 4 f 2 1 1 1", "0 0 [0 1 1 0 0 30] [0 9 9 0 0] [0 2 2 0 0]", ""},
	},
}
