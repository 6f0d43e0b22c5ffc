// Package docs_test holds the READMEs and the pages of docs/ to their word: each block of
// commands is run by a test or says why not, each link leads somewhere, and the ways to
// start, to install and to upgrade are followed as a reader would.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/test/page"
)

// top is the repository.
const top = "../.."

// marked returns the text of the one block of a page that has the mark "test: NAME".
func marked(t *testing.T, path, name string) string {
	t.Helper()
	return page.Marked(t, filepath.Join(top, path), name)
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
	for path, text := range sources(t) {
		if path != filepath.Join(top, "test/docs/blocks_test.go") {
			packages[filepath.Dir(path)] += text
		}
	}
	for _, path := range pages(t) {
		for _, block := range page.Blocks(t, filepath.Join(top, path)) {
			first, _, _ := strings.Cut(block.Text, "\n")
			kind, rest, _ := strings.Cut(block.Mark, ": ")
			switch kind {
			case "test":
				// The READMEs show the same, and tests read the English one.
				name := strings.Replace(filepath.Base(path), ".zh-CN", "", 1)
				isNamed := false
				for _, tests := range packages {
					isNamed = isNamed || strings.Contains(tests, name+`"`) && strings.Contains(tests, `"`+rest+`"`)
				}
				require.True(t, isNamed, "%s: no test names the page and %q, the block that begins %q", path, rest, first)
			case "not run":
				require.Greater(t, len(rest), 10, "%s: the block that begins %q does not say why it is not run", path, first)
			case "grammar":
			default:
				// test/command runs all transcripts of its page.
				require.True(t, path == "docs/commands.md" && strings.HasPrefix(first, "> "),
					"%s: the block that begins %q is neither run nor says why: <!-- test: ... --> or <!-- not run: ... -->", path, first)
			}
		}
	}
}

// sources are the texts of all tests, by file.
func sources(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	require.NoError(t, filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, "_test.go") {
			var content []byte
			content, err = os.ReadFile(path)
			files[path] = string(content)
		}
		return err
	}))
	return files
}

// TestRoutinesThatAreNamedExist: each ./build.sh NAME of a page is one.
func TestRoutinesThatAreNamedExist(t *testing.T) {
	help := read(t, "build.sh")
	for _, path := range all(t) {
		for _, match := range regexp.MustCompile(`\./build\.sh ([a-z-]+)`).FindAllStringSubmatch(read(t, path), -1) {
			require.Regexp(t, `(?m)^  `+match[1]+`\b`, help, "%s names %q", path, match[0])
		}
	}
}
