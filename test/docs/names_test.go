package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// all are the pages and those beside the READMEs.
func all(t *testing.T) []string {
	t.Helper()
	return append(pages(t), "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
}

// testsOfTheSources are the names of all tests and fuzz targets.
func testsOfTheSources(t *testing.T) map[string]bool {
	t.Helper()
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
	names := map[string]bool{}
	for _, text := range sources(t) {
		for _, match := range declaration.FindAllStringSubmatch(text, -1) {
			names[match[1]] = true
		}
	}
	return names
}

// TestPagesNameTestsThatExist: a promise is held by a test that is there.
func TestPagesNameTestsThatExist(t *testing.T) {
	tests, named := testsOfTheSources(t), 0
	for _, path := range all(t) {
		for _, match := range regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`).FindAllString(read(t, path), -1) {
			require.True(t, tests[match], "%s names %s, which is no test", path, match)
			named++
		}
	}
	require.Greater(t, named, 30)
}

// TestPagesNameFilesThatExist: paths in backquotes that begin with a folder of the
// repository and end as a file does.
func TestPagesNameFilesThatExist(t *testing.T) {
	named := 0
	for _, path := range all(t) {
		for _, match := range regexp.MustCompile("`([\\w.-]+/[\\w./-]+\\.(?:go|c|h|md|sh|txt|lua|yml))`").FindAllStringSubmatch(read(t, path), -1) {
			if _, err := os.Stat(filepath.Join(top, strings.SplitN(match[1], "/", 2)[0])); err != nil {
				continue // a path of somebody else's
			}
			require.FileExists(t, filepath.Join(top, match[1]), "%s names %s", path, match[1])
			named++
		}
	}
	require.Greater(t, named, 10)
}
