package playground_test

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"
)

// TestPicture takes the picture of the README, in light and dark, into the folder that
// FUNNEL_PICTURES names:
//
//	FUNNEL_PICTURES=$PWD/docs go -C test test -count=1 -run Picture ./playground
//
// Its text is in the fonts Inter and JetBrains Mono, of Debian's packages fonts-inter and
// fonts-jetbrains-mono, where they are installed.
func TestPicture(t *testing.T) {
	s := newStage(t)
	folder, pictures := os.Getenv("FUNNEL_PICTURES"), map[string]string{"light": "playground.png", "dark": "playground-dark.png"}
	if folder == "" {
		folder = t.TempDir()
		delete(pictures, "dark") // one shows that they can be taken
	}
	for scheme, name := range pictures {
		require.NoError(t, s.server.Client(t).FlushAll(t.Context()).Err())
		v := s.look(t, "one", screen(1280, 720, 1, "prefers-color-scheme: "+scheme, "prefers-reduced-motion: reduce"))
		v.press("Pour 20 times")
		v.says(".detail", "15 allowed, 5 limited")
		s.pass(v, 200*time.Millisecond)
		v.press("Pour")
		v.says(".headline", `^limited: come back in 1\.8 s$`)
		v.says(".detail", "^0 of 15 remaining, empty in 29.8 s$")

		// The drop and the waves at the same point of their movement each time, and no
		// button under the mouse.
		v.do(screen(1280, 720, 2, "prefers-color-scheme: "+scheme, "prefers-reduced-motion: no-preference"),
			chromedp.MouseEvent("mouseMoved", 640, 690))
		v.until(`document.getAnimations().length === 2`)
		v.do(chromedp.Evaluate[chromedp.Void](`document.getAnimations().forEach((a) => { a.pause(); a.currentTime = 400 })`))
		picture, err := chromedp.Run(v.ctx, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		config, err := png.DecodeConfig(bytes.NewReader(picture))
		require.NoError(t, err)
		require.Equal(t, []int{2560, 1440}, []int{config.Width, config.Height})
		require.Less(t, len(picture), 300<<10)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), picture, 0o644))
	}
}
