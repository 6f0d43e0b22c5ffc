package bench

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed marker/marker.c
var markerSource []byte

// BuildMarker compiles the module with BENCH.NOOP and BENCH.MARK into a folder, by
// the C compiler that CC names, or cc, and returns its path.
func BuildMarker(ctx context.Context, folder string) (string, error) {
	compiler := strings.Fields(os.Getenv("CC"))
	if len(compiler) == 0 {
		compiler = []string{"cc"}
	}
	source, module := filepath.Join(folder, "marker.c"), filepath.Join(folder, "marker.so")
	if err := os.WriteFile(source, markerSource, 0o600); err != nil {
		return "", err
	}
	// -g has nothing to do with it: callgrind finds bench_mark in the symbol table.
	line := append(compiler, "-shared", "-fPIC", "-O2", "-o", module, source)
	output, err := exec.CommandContext(ctx, line[0], line[1:]...).CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return "", fmt.Errorf("the C compiler '%s' is missing: install gcc, or name another in CC", line[0])
	case err != nil:
		return "", fmt.Errorf("cannot compile the marker module: %w\n%s", err, bytes.TrimSpace(output))
	}
	return module, os.Chmod(module, 0o755)
}
