// Package docs_test checks the READMEs and the pages of docs/: each block of commands is run
// by a test or says why not, each link leads somewhere, and the ways to start are followed as
// a reader would.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/test/page"
)

// top is the repository.
const top = "../.."

// marked returns the text of the one block of README.md that has the mark "test: NAME".
func marked(t *testing.T, name string) string {
	t.Helper()
	return page.Marked(t, filepath.Join(top, "README.md"), name)
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(top, path))
	require.NoError(t, err)
	return string(content)
}

// pages are the READMEs and docs/.
func pages(t *testing.T) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(top, "docs", "*.md"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for i := range paths {
		paths[i], _ = filepath.Rel(top, paths[i])
	}
	return append(paths, "README.md", "README.zh-CN.md")
}

// TestEveryBlockIsRunOrSaysWhyNot: the line before a block is a comment, which is not
// shown. "test: NAME" stands in a package of tests that names the page, too, as "NAME";
// "not run: WHY" gives a reason; "grammar" is no command.
func TestEveryBlockIsRunOrSaysWhyNot(t *testing.T) {
	packages := map[string]string{}
	require.NoError(t, filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			packages[filepath.Dir(path)] += read(t, path[len(top):])
		}
		return err
	}))
	for _, path := range pages(t) {
		// The READMEs show the same, and tests read the English one.
		name := strings.Replace(filepath.Base(path), ".zh-CN", "", 1) + `"`
		for _, block := range page.Blocks(t, filepath.Join(top, path)) {
			kind, rest, _ := strings.Cut(block.Mark, ": ")
			// test/command runs all transcripts of its page.
			fine := kind == "grammar" || kind == "not run" && len(rest) > 10 || path == "docs/commands.md" && strings.HasPrefix(block.Text, "> ")
			for _, tests := range packages {
				fine = fine || kind == "test" && strings.Contains(tests, name) && strings.Contains(tests, `"`+rest+`"`)
			}
			require.True(t, fine, "%s: the block in line %d is neither run by a test that names it nor says why: <!-- test: ... --> or <!-- not run: ... -->", path, block.Line)
		}
	}
}
