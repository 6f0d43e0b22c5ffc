// The page of examples/playground shows a visitor in headless Chromium what Redis decides.
// FUNNEL_CHROMIUM names the program, which then must be there; otherwise the tests are skipped
// where there is no chromium.

package playground_test

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// A visit is a server, the example and its page in a browser. Both clocks stand still
// between the steps of a test.
type visit struct {
	t      *testing.T
	ctx    context.Context
	server *servertest.Server
	clock  servertest.Clock
	now    time.Time
}

func newVisit(t *testing.T) *visit {
	named := os.Getenv("FUNNEL_CHROMIUM")
	chromium, err := exec.LookPath(cmp.Or(named, "chromium"))
	if err != nil && named == "" {
		t.Skip("needs Chromium, of Debian's package chromium:", err)
	}
	require.NoError(t, err, "install chromium")
	program := filepath.Join(t.TempDir(), "playground")
	output, err := exec.Command("go", "-C", "../..", "build", "-o", program, "./examples/playground").CombinedOutput()
	require.NoError(t, err, string(output))

	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	v := &visit{t: t, server: server, clock: servertest.ClockOf(server.Client(t)), now: servertest.Epoch}
	v.clock.Set(t, v.now)
	address := fmt.Sprint("127.0.0.1:", servertest.FreePort(t))
	example := exec.Command(program, "-redis", v.server.Addr(), "-listen", address, "-prefix", "playground:")
	example.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, example.Start())
	t.Cleanup(func() { example.Process.Kill(); example.Wait() })
	servertest.AwaitListener(t, address)

	options := append(chromedp.DefaultExecAllocatorOptions[:],
		chromedp.ExecPath(chromium), chromedp.WSURLReadTimeout(servertest.Patience),
		// Tests look at what is said and drawn, not at how it moves.
		chromedp.Flag("force-prefers-reduced-motion", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has none for root
	}
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end)
	ctx, end = chromedp.NewContext(ctx)
	t.Cleanup(end)
	v.ctx, end = context.WithTimeout(ctx, 2*servertest.Patience)
	t.Cleanup(end)
	require.NoError(t, chromedp.Listen(v.ctx, func(event any) {
		switch event := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page throws: %v", event.ExceptionDetails)
		case *log.EventEntryAdded:
			if event.Entry.Source == log.EntrySourceSecurity {
				t.Errorf("the page violates its policy: %s", event.Entry.Text)
			}
		}
	}))
	v.do(call(page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: "let clock = 1000; performance.now = () => clock"}))
	v.do(chromedp.EmulateViewport(1280, 720), chromedp.Navigate("http://"+address+"/#one"))
	v.until(`document.querySelector("#server").textContent === "by the module"`)
	return v
}

// call is a call of the browser whose reply does not matter.
func call[P, R any](command cdp.Command[P, R], parameters P) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, command, parameters)
		return err
	})
}

func (v *visit) do(actions ...chromedp.Action[chromedp.Void]) {
	require.NoError(v.t, chromedp.Do(v.ctx, actions...))
}

func (v *visit) until(condition string) {
	err := chromedp.Do(v.ctx, chromedp.Poll[chromedp.Void](condition, chromedp.WithPollingTimeout(servertest.Patience)))
	if err != nil {
		text, _ := chromedp.Run(v.ctx, chromedp.TextContent(chromedp.CSS("form:not([hidden])")))
		require.NoError(v.t, err, "%s; the page says: %s", condition, text)
	}
}

// says waits until an element of the section that is open has a text, a regular expression.
func (v *visit) says(selector, pattern string) {
	selector = "form:not([hidden]) " + selector
	v.until(fmt.Sprintf("new RegExp(%q).test(document.querySelector(%q).textContent)", pattern, selector))
}

// press presses the button that has this text, and waits for the answers.
func (v *visit) press(button string) {
	v.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
		`[...document.querySelectorAll("form:not([hidden]) button")].find((b) => b.textContent === %q).click()`, button)))
	v.until(`document.querySelector("form:not([hidden])").ariaBusy === "false"`)
}

func (v *visit) set(name, value string) {
	selectText := fmt.Sprintf(`document.querySelector("form:not([hidden]) [name=%s]").select()`, name)
	v.do(chromedp.Evaluate[chromedp.Void](selectText), chromedp.KeyEvent(value))
}

// pass lets time pass in the server and in the page. The page may ask in between, and so be
// wrong about the level until it asks again.
func (v *visit) pass(d time.Duration) {
	v.now = v.now.Add(d)
	v.clock.Set(v.t, v.now)
	v.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("clock += %g", d.Seconds()*1000)))
}

// TestStory: what a visitor does and reads, from the first section to the last, and when the
// server goes away.
func TestStory(t *testing.T) {
	v := newVisit(t)
	for _, step := range []struct {
		section, name, value, button string // opened, typed into, pressed
		pass                         time.Duration
		headline, detail             string
	}{
		{"", "", "", "Pour 20 times", 0, `limited: come back in 2\.0 s`, "5 limited · 0 of 15 remaining, empty in 30.0 s"},
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
		{"slots", "", "", "7 jobs", 0, "limited: no slot is free", "5 allowed, 2 limited · limited by slots"},
		{"", "", "", "End", 0, "given back", "5 allowed, 2 limited"},
		{"", "", "", "Begin", 9 * time.Second, "allowed", "6 allowed, 2 limited · took a slot and tokens"},
		{"", "", "", "Renew", 10*time.Second - time.Millisecond, "renewed", ""},
		{"", "", "", "Begin", 0, "limited: no slot is free", "6 allowed, 3 limited · limited by slots"},
		{"", "", "", "", time.Millisecond, "a slot is free", ""},
		{"", "quantity", "21", "Begin", 0, "limited: 21 tokens never fit", ".* of tokens: no waiting helps."},
		{"", "", "", "End", 0, "nothing to refund", "No job runs."},
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
	v.until(`document.querySelector("#outage").textContent.includes("No decision by Redis at")`)
	v.until(`document.querySelector("#server").textContent === "no decision"`)
	v.server.Restart(t)
	v.until(`document.querySelector("#outage").hidden`)
	v.press("Reserve")
	v.says(".headline", "^caller 6: go ahead$")
}

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
	v.press("Pour 20 times")
	v.pass(200 * time.Millisecond)
	v.press("Pour")
	v.says(".headline", `^limited: come back in 1\.8 s$`)
	for scheme, name := range map[string]string{"light": "playground.png", "dark": "playground-dark.png"} {
		// The drop and the waves at the same point of their movement each time, and no button
		// under the mouse.
		v.do(chromedp.EmulateViewport(1280, 720, chromedp.EmulateScale(2)), call(emulation.SetEmulatedMedia,
			emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
				{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "no-preference"},
			}}), chromedp.MouseEvent("mouseMoved", 640, 690))
		v.until(`document.getAnimations().length === 2`)
		v.do(chromedp.Evaluate[chromedp.Void](`document.getAnimations().forEach((a) => { a.pause(); a.currentTime = 400 })`))
		picture, err := chromedp.Run(v.ctx, chromedp.CaptureScreenshot())
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(folder, name), picture, 0o644))
	}
}
