package servertest

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMachine(t *testing.T) {
	before := Machine{load: "0.10 0.20 0.30", steal: 100, total: 1000}
	after := Machine{load: "1.50 0.50 0.40", steal: 105, total: 1200}
	require.Equal(t, "load 0.10 0.20 0.30 before and 1.50 0.50 0.40 after; 2.5 % of the time went to other machines",
		after.Since(before))
	now, err := ReadMachine()
	require.NoError(t, err)
	require.Positive(t, now.total)
	require.Regexp(t, `^\d+\.\d\d \d+\.\d\d \d+\.\d\d$`, now.load)
	require.Contains(t, now.Since(now), "; 0.0 %", "no time has passed")
}
