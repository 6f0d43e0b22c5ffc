// The pictures of docs/pictures are for everybody: they have a title and a description, are
// readable in light and in dark, and stand on a page with a text in their place.

package pages_test

import (
	"encoding/xml"
	"errors"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/test/pages/page"
)

func TestPictures(t *testing.T) {
	paths, err := filepath.Glob(filepath.Join(top, "docs", "pictures", "*.svg"))
	require.NoError(t, err)
	require.NotEmpty(t, paths)
	for _, path := range paths {
		picture := page.Read(t, path)
		requireXML(t, path, picture)
		require.Regexp(t, `(?s)role="img" aria-labelledby="title desc".*<title id="title">.+</title>.*<desc id="desc">.{100,}</desc>`,
			picture, path)

		light, dark, found := strings.Cut(picture, "@media (prefers-color-scheme: dark)")
		require.True(t, found, "%s has no colors for a dark page", path)
		dark, shapes, _ := strings.Cut(dark, "</style>")
		for _, color := range regexp.MustCompile(`(?m)^ +(\S.*) \{.*#`).FindAllStringSubmatch(light, -1) {
			for name := range strings.SplitSeq(color[1], ", ") {
				require.Contains(t, dark, name, "%s: %s has no color for a dark page", path, name)
			}
		}
		for _, class := range regexp.MustCompile(`class="(\w+)"`).FindAllStringSubmatch(shapes, -1) {
			require.Contains(t, light, "."+class[1], path)
		}
		require.NotContains(t, shapes, "#", "%s: a color outside of the style is the same in light and dark", path)

		shown := regexp.MustCompile(`<img src="[^"]*pictures/` + filepath.Base(path) + `" alt="[^"]{100,}"`)
		isShown := false
		for _, name := range pages(t) {
			isShown = isShown || shown.MatchString(read(t, name))
		}
		require.True(t, isShown, "no page shows %s with a text for those who do not see it", path)
	}
}

// requireXML requires that a text is well-formed.
func requireXML(t *testing.T, path, text string) {
	for decoder := xml.NewDecoder(strings.NewReader(text)); ; {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return
		}
		require.NoError(t, err, path)
	}
}
