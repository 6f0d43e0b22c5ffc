// Numbers below their range are errors. Package module/command compares each operation with package
// contract.

package quota_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/quota"
)

func TestErrors(t *testing.T) {
	for _, c := range []struct {
		limit, until, quantity int64
		want                   error
	}{{-1, 1, 0, quota.ErrLimit}, {0, 0, 0, quota.ErrUntil}, {0, 1, -1, quota.ErrQuantity}, {0, 1, 0, nil}} {
		_, err := quota.NewRequest(c.limit, c.until, c.quantity)
		require.Equal(t, c.want, err, "%+v", c)
	}
}
