package playground_test

import (
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
	folder := os.Getenv("FUNNEL_PICTURES")
	if folder == "" {
		t.Skip("FUNNEL_PICTURES names no folder")
	}
	v := newVisit(t)
	for scheme, name := range map[string]string{"light": "playground.png", "dark": "playground-dark.png"} {
		require.NoError(t, v.server.Client(t).FlushAll(t.Context()).Err())
		v.look(1, "prefers-color-scheme: "+scheme, "prefers-reduced-motion: reduce")
		v.press("Pour 20 times")
		v.pass(200 * time.Millisecond)
		v.press("Pour")
		v.says(".headline", `^limited: come back in 1\.8 s$`)

		// The drop and the waves at the same point of their movement each time, and no
		// button under the mouse.
		v.screen(2, "prefers-color-scheme: "+scheme, "prefers-reduced-motion: no-preference")
		v.do(chromedp.MouseEvent("mouseMoved", 640, 690))
		v.until(`document.getAnimations().length === 2`)
		v.evaluate(`document.getAnimations().forEach((a) => { a.pause(); a.currentTime = 400 })`)
		picture, err := chromedp.Run(v.ctx, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), picture, 0o644))
	}
}

// TestStory: what a visitor does and reads, from the first section to the last, and when the
// server goes away.
func TestStory(t *testing.T) {
	v := newVisit(t)
	v.look(1)
	for _, step := range []struct {
		section, name, value, button string // opened, typed into, pressed
		pass                         time.Duration
		headline, detail             string
	}{
		{"", "", "", "Pour 20 times", 0, `limited: come back in 2\.0 s`, "15 allowed, 5 limited · 0 of 15 remaining, empty in 30.0 s"},
		{"", "", "", "", 1999 * time.Millisecond, `limited: come back in 0\.1 s`, ""},
		{"", "", "", "", time.Millisecond, "come back now", ""},
		{"", "", "", "Refund", 0, "refunded", "15 allowed, 5 limited · 2 of 15 remaining, empty in 26.0 s"},
		{"", "quantity", "18", "Charge", 0, `charged: overfull for 32\.0 s`, "0 of 15 remaining, empty in 1 min 2 s"},
		{"", "", "", "Refund", 0, "refunded", "2 of 15 remaining, empty in 26.0 s"},
		{"", "quantity", "9007199254740991", "Pour", 0, "error", "quantity and period are too large together for count.*"},
		{"", "quantity", "16", "Pour", 0, "limited: 16 tokens never fit", ""},
		{"", "capacity", "50", "Pour", 0, "allowed", "21 of 50 remaining, empty in 58.0 s"},
		{"", "", "", "Empty", 0, "empty", "50 of 50 remaining"},
		{"", "quantity", "2", "Pour", 3 * time.Second, "allowed", "49 of 50 remaining, empty in 1.0 s"},
		{"", "", "", "Refund", 0, "refunded", "50 of 50 remaining"},
		{"", "", "", "Pour", 4 * time.Second, "allowed", "50 of 50 remaining"},
		{"", "", "", "Refund", 0, "nothing to refund", "No tokens of a call are left in the funnel."},
		{"several", "", "", "Pour 20 times", 0, `limited: come back in 1\.0 s`, "5 allowed, 15 limited · limited by second"},
		{"turns", "", "", "5 callers", time.Second, `caller 5: your turn in 3\.0 s`, ""},
		{"", "max_wait", "4.5", "Reserve", 0, `limited: come back in 0\.5 s`, ""},
	} {
		if step.section != "" {
			v.do(chromedp.Click(chromedp.CSS("nav a[href='#" + step.section + "']")))
			v.until("!document.getElementById('" + step.section + "').hidden")
		}
		if step.name != "" {
			v.set(step.name, step.value)
		}
		if step.button != "" {
			v.press(step.button)
		}
		v.pass(step.pass)
		v.says(".headline", "^"+step.headline+"$")
		v.says(".detail", step.detail+"$")
	}
	v.says(".above", `^caller 4caller 5$`)
	v.says(".terminal", `^> CL\.RESERVE playground:turns 3 1 2 1 4\.500000000\n1\) \(integer\) 1 +# limited`)

	v.server.Kill()
	v.until(`document.querySelector("#outage").textContent.includes("No decision by Redis at") && document.querySelector("#server").textContent === "no decision"`)
	v.server.Restart(t)
	v.until(`document.querySelector("#outage").hidden`)
	v.press("Reserve")
	v.says(".headline", "^caller 6: go ahead$")
}
