package bench_test

import (
	"errors"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
	"funnel/test/bench"
)

// Few calls and wide bounds: whether counting works, not what comes out.
func TestInstructionsAreCounted(t *testing.T) {
	if testing.Short() {
		t.Skip("a server under callgrind takes its time to start")
	}
	if _, err := exec.LookPath("valgrind"); errors.Is(err, exec.ErrNotFound) {
		t.Skip("valgrind is not installed")
	}
	marker, err := bench.BuildMarker(t.Context(), t.TempDir())
	require.NoError(t, err)
	program, err := exec.LookPath(servertest.Program())
	require.NoError(t, err)
	alternatives, err := bench.Choose([]string{"get", "throttle"}, false)
	require.NoError(t, err)

	counts, err := bench.MeasureInstructions(t.Context(), bench.CallgrindOptions{
		Program: program, Valgrind: "valgrind", Module: servertest.Module(t), Marker: marker,
		Calls: 320, Progress: t.Logf,
	}, alternatives)
	require.NoError(t, err)
	perCall := map[string]float64{}
	for _, count := range counts {
		perCall[count.ID()] = count.PerCall
	}
	require.Len(t, perCall, 4)
	require.Greater(t, perCall["get"], 500.0)
	require.Less(t, perCall["get"], perCall["throttle/limited"])
	require.Less(t, perCall["throttle/limited"], perCall["throttle/allowed"])
}

func TestMissingValgrindIsExplained(t *testing.T) {
	for _, name := range []string{"no-such-valgrind", "/no/such/valgrind"} {
		_, err := bench.ValgrindVersion(t.Context(), name)
		require.ErrorContains(t, err, "install")
	}
}
