package bench

import (
	"context"
	"embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

//go:embed marker/*.c
var markerSources embed.FS

// BuildMarker compiles the module of the folder marker into a folder, by the C
// compiler that CC names, or cc, and returns its path.
func BuildMarker(ctx context.Context, folder string) (string, error) {
	compiler := strings.Fields(os.Getenv("CC"))
	if len(compiler) == 0 {
		compiler = []string{"cc"}
	}
	if err := os.CopyFS(folder, markerSources); err != nil {
		return "", err
	}
	module := filepath.Join(folder, "marker.so")
	line := append(compiler, "-shared", "-fPIC", "-O2", "-o", module, filepath.Join(folder, "marker", "marker.c"), filepath.Join(folder, "marker", "floor.c"))
	if output, err := exec.CommandContext(ctx, line[0], line[1:]...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("cannot compile the marker module, with the compiler in CC or cc: %w\n%s", err, output)
	}
	return module, nil
}
