package main

import (
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// module is a file that passes for a module as long as nobody loads it.
func module(t *testing.T) string {
	path := filepath.Join(t.TempDir(), "funnel.so")
	require.NoError(t, os.WriteFile(path, nil, 0o755))
	return path
}

func TestOptionsChooseParts(t *testing.T) {
	for _, c := range []struct {
		arguments []string
		parts     []string
	}{
		{nil, usualParts},
		{[]string{"-tail"}, tailParts},
		{[]string{"-scale"}, scaleParts},
		{[]string{"-all"}, allParts},
		{[]string{"-skip", "instructions,latency"}, []string{partMemory, partThroughput}},
		{[]string{"-tail", "-skip", "tail"}, []string{partFootprint}},
	} {
		o, err := parse(append(c.arguments, "-module", module(t), "-server", os.Args[0]), io.Discard)
		require.NoError(t, err)
		require.Equal(t, c.parts, o.parts, "%q", c.arguments)
	}
}

func TestOptionsThatMakeNoSenseAreExplained(t *testing.T) {
	for _, c := range []struct {
		arguments []string
		want      string
	}{
		{[]string{"word"}, "no argument 'word'"},
		{[]string{"-skip", "nonsense"}, "no part 'nonsense'"},
		{[]string{"-clients", "0"}, "-clients must be from 1"},
		{[]string{"-limited", "1.5"}, "-limited must be from 0 to 1"},
		{[]string{"-limited", "NaN"}, "-limited must be from 0 to 1"},
		{[]string{"-peer", "/no/such/module.so"}, "-peer"},
		{[]string{"-server", "/no/such/server"}, "no server program"},
	} {
		_, err := parse(append([]string{"-module", module(t), "-server", os.Args[0]}, c.arguments...), io.Discard)
		require.ErrorContains(t, err, c.want)
	}
	_, err := parse([]string{"-module", "/no/such/module.so"}, io.Discard)
	require.ErrorContains(t, err, "build.sh build")
}

func TestStepsEndWithTheMost(t *testing.T) {
	require.Equal(t, []int64{1}, steps(1))
	require.Equal(t, []int64{1, 10, 100}, steps(100))
	require.Equal(t, []int64{1, 10, 25}, steps(25))
}
