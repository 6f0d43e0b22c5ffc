// Numbers below their range are errors. Package module/command compares each operation with package contract.

package slots_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/slots"
)

const millisecond = int64(1e6)

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		limit, ttl int64
		want       error
	}{{-1, millisecond, slots.ErrLimit}, {math.MinInt64, 0, slots.ErrLimit}, {0, millisecond - 1, slots.ErrTTL}, {0, millisecond, nil}} {
		request, err := slots.NewRequest(c.limit, c.ttl)
		require.Equal(t, c.want, err, "%+v", c)
		require.Equal(t, err != nil, request == slots.Request{}, "a request beside an error: %+v", c)
	}
}
