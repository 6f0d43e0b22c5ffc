package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/require"
)

// TestLinksLeadSomewhere: each link within the repository is to a file or folder, and to a
// heading that is there.
func TestLinksLeadSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)\s]+)\)|(?:src|srcset)="([^"]+)"`)
	count := 0
	for _, page := range append(pages(t), "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md") {
		for _, match := range link.FindAllStringSubmatch(read(t, page), -1) {
			target := match[1] + match[2]
			if strings.Contains(target, "://") {
				continue
			}
			path, anchor, _ := strings.Cut(target, "#")
			file := page
			if path != "" {
				file = filepath.Join(filepath.Dir(page), path)
			}
			_, err := os.Stat(filepath.Join(top, file))
			require.NoError(t, err, "%s links to %s", page, target)
			if anchor != "" {
				require.True(t, slices.Contains(anchors(read(t, file)), anchor), "%s links to %s", page, target)
			}
			count++
		}
	}
	require.Greater(t, count, 50)
}

// anchors are the names that GitHub gives to the headings of a page.
func anchors(text string) (names []string) {
	for _, match := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(text, -1) {
		names = append(names, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-', r == '_', unicode.IsLetter(r), unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, match[1]))
	}
	return names
}
