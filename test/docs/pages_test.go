// Package docs_test checks that the pages of the project name only what exists: tests,
// files, and other pages.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// top is the repository.
const top = "../.."

// pages are all pages, by their paths from the top.
func pages(t *testing.T) map[string]string {
	t.Helper()
	pages := map[string]string{}
	for _, pattern := range []string{"*.md", "*/*.md"} {
		paths, err := filepath.Glob(filepath.Join(top, pattern))
		require.NoError(t, err)
		for _, path := range paths {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			name, err := filepath.Rel(top, path)
			require.NoError(t, err)
			pages[name] = string(text)
		}
	}
	require.Contains(t, pages, "SECURITY.md")
	return pages
}

// testsOfTheSources are the names of all tests and fuzz targets.
func testsOfTheSources(t *testing.T) map[string]bool {
	t.Helper()
	declaration := regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Z]\w*)\(`)
	names := map[string]bool{}
	require.NoError(t, filepath.WalkDir(top, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, match := range declaration.FindAllSubmatch(text, -1) {
			names[string(match[1])] = true
		}
		return err
	}))
	return names
}

// TestPagesNameTestsThatExist: a promise is held by a test that is there.
func TestPagesNameTestsThatExist(t *testing.T) {
	tests, named := testsOfTheSources(t), 0
	for page, text := range pages(t) {
		for _, match := range regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w*`).FindAllString(text, -1) {
			require.True(t, tests[match], "%s names %s, which is no test", page, match)
			named++
		}
	}
	require.Greater(t, named, 30)
}

// TestPagesNameFilesThatExist: paths in backquotes that begin with a folder of the
// repository and end as a file does.
func TestPagesNameFilesThatExist(t *testing.T) {
	named := 0
	for page, text := range pages(t) {
		for _, match := range regexp.MustCompile("`([\\w.-]+/[\\w./-]+\\.(?:go|c|h|md|sh|txt|lua|yml))`").FindAllStringSubmatch(text, -1) {
			if _, err := os.Stat(filepath.Join(top, strings.SplitN(match[1], "/", 2)[0])); err != nil {
				continue // a path of somebody else's
			}
			require.FileExists(t, filepath.Join(top, match[1]), "%s names %s", page, match[1])
			named++
		}
	}
	require.Greater(t, named, 10)
}

// TestLinksBetweenPages lead to a file and, behind #, to a heading in it.
func TestLinksBetweenPages(t *testing.T) {
	all := pages(t)
	followed := 0
	for page, text := range all {
		if page == filepath.Join("scripts", "archive-README.md") {
			continue // is unpacked elsewhere, and has none: test/dist
		}
		for _, match := range regexp.MustCompile(`\]\(([^()\s]+)\)`).FindAllStringSubmatch(text, -1) {
			path, heading, _ := strings.Cut(match[1], "#")
			if strings.Contains(path, "://") {
				continue
			}
			target := page
			if path != "" {
				target = filepath.Join(filepath.Dir(page), path)
			}
			_, err := os.Stat(filepath.Join(top, target))
			require.NoError(t, err, "%s links to %s", page, match[1])
			if heading != "" {
				require.Contains(t, anchors(all[target]), heading, "%s links to %s", page, match[1])
			}
			followed++
		}
	}
	require.Greater(t, followed, 20)
}

// anchors are those that hosts of repositories make of headings: in lower case, without
// punctuation, with hyphens for spaces.
func anchors(page string) (anchors []string) {
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(page, -1) {
		kept := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(match[1]), "")
		anchors = append(anchors, strings.ReplaceAll(kept, " ", "-"))
	}
	return anchors
}
