// The page of examples/playground shows a visitor in headless Chromium what Redis decides.
// FUNNEL_CHROMIUM names the browser, which must then exist. Without the variable, the test is
// skipped if there is no program chromium.

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

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// A visit is a server, the example and its page in a browser. The server's clock stands still
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
		// The test looks at texts, not at movements.
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
	v.do(chromedp.EmulateViewport(1280, 720), chromedp.Navigate("http://"+address))
	v.until(`document.querySelector("#source").textContent === "by the module"`)
	return v
}

func (v *visit) do(actions ...chromedp.Action[chromedp.Void]) {
	require.NoError(v.t, chromedp.Do(v.ctx, actions...))
}

func (v *visit) until(condition string) {
	err := chromedp.Do(v.ctx, chromedp.Poll[chromedp.Void](condition, chromedp.WithPollingTimeout(servertest.Patience)))
	if err != nil {
		text, _ := chromedp.Run(v.ctx, chromedp.TextContent(chromedp.CSS("form")))
		require.NoError(v.t, err, "%s; the page says: %s", condition, text)
	}
}

// says waits until the text of an element matches a regular expression. The page asks twice a
// second.
func (v *visit) says(selector, pattern string) {
	v.until(fmt.Sprintf("new RegExp(%q).test(document.querySelector(%q)?.textContent)", "^"+pattern+"$", selector))
}

// press presses the button that has this text, and waits for the answers.
func (v *visit) press(button string) {
	v.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(
		`[...document.querySelectorAll("button")].find((b) => b.textContent === %q).click()`, button)))
	v.until(`document.forms[0].ariaBusy === "false"`)
}

func (v *visit) set(name, value string) {
	selectText := fmt.Sprintf(`document.querySelector("[name=%s]").select()`, name)
	v.do(chromedp.Evaluate[chromedp.Void](selectText), chromedp.KeyEvent(value))
}

func (v *visit) pass(d time.Duration) {
	v.now = v.now.Add(d)
	v.clock.Set(v.t, v.now)
}

// TestStory: what a visitor does and reads, from the first tab to the last, and what the page shows
// while the server is down.
func TestStory(t *testing.T) {
	v := newVisit(t)
	for _, step := range []struct {
		tab, name, value, button string        // the tab to open, the field and its new value, the button to press
		pass                     time.Duration // afterwards
		headline, state          string        // of the first row
	}{
		{"", "", "", "Pour 20 times", 0, "limited by demo: retry after 2 s", "0 of 15 remaining, all in 30 s"},
		{"", "", "", "Refund", 2 * time.Second, "given back", "2 of 15 remaining, all in 26 s"},
		{"", "quantity", "18", "Charge", 0, "charged: limits for 32 s", "0 of 15 remaining, all in 62 s"},
		{"", "", "", "Refund", 0, "given back", "2 of 15 remaining, all in 26 s"},
		{"", "quantity", "x", "Pour", 0, "INVALID quantity must be .* not 'x'", "2 of 15 remaining, all in 26 s"},
		{"", "quantity", "16", "Pour", 0, "limited by demo: never fits", "2 of 15 remaining, all in 26 s"},
		{"", "capacity", "50", "Pour", 0, "allowed", "21 of 50 remaining, all in 58 s"},
		{"", "", "", "Empty", 0, "empty", "50 of 50 remaining"},
		{"", "", "", "Refund", 0, "nothing to give back", "50 of 50 remaining"},
		{"several", "", "", "Pour 20 times", 0, "limited by second: retry after 1 s", "0 of 5 remaining, all in 5 s"},
		{"slots", "", "", "7 jobs", 0, "limited by slots: retry after 10 s", "0 of 5 remaining, all in 10 s"},
		{"", "", "", "End", 0, "given back", "1 of 5 remaining, all in 10 s"},
		{"", "", "", "Begin", 9 * time.Second, "allowed", "0 of 5 remaining, all in 1 s"},
		{"", "", "", "Renew", 2 * time.Second, "renewed", "0 of 5 remaining, all in 8 s"},
		{"", "", "", "", 8 * time.Second, "renewed", "5 of 5 remaining"},
		{"", "", "", "Renew", 0, "lost: the slot had ended", "5 of 5 remaining"},
		{"", "", "", "End", 0, "the slot had ended", "5 of 5 remaining"},
		{"quotas", "until", "4102444881", "Use 20 times", 0, "limited by rate: retry after 1 s",
			"20 of 30 remaining, all in 60 s"},
		{"", "quantity", "21", "Charge", 0, "charged: limits for 60 s", "0 of 30 remaining, all in 60 s"},
		{"", "", "", "Refund", 0, "given back", "20 of 30 remaining, all in 60 s"},
		{"", "until", "4102444800", "Use", 0, "ENDED row 1: until must be later than the server's clock: .*",
			"20 of 30 remaining, all in 60 s"},
		{"turns", "max_wait", "9000", "Empty", 0, "empty", "3 of 3 remaining"},
		{"", "period", "2000", "5 callers", 0, "your turn in 4,000 s", "0 of 3 remaining, all in 10,000 s"},
		{"", "max_wait", "4.5", "Reserve", 0, "limited by turns: retry after 5,995.5 s", "0 of 3 remaining, all in 10,000 s"},
	} {
		if step.tab != "" {
			v.do(chromedp.Click(chromedp.CSS("nav a[href='#" + step.tab + "']")))
			v.until("document.querySelector('nav [aria-current]').hash === '#" + step.tab + "'")
		}
		if step.name != "" {
			v.set(step.name, step.value)
		}
		if step.button != "" {
			v.press(step.button)
		}
		v.pass(step.pass)
		v.says("#headline", step.headline)
		v.says(".state", step.state)
	}
	v.until(`document.querySelectorAll("#calls .waits").length === 2`)
	v.says("#terminal", `> CL\.RESERVE playground:turns 3 1 2000 1 4\.5\n1\) \(integer\) 1 +# limited\n[^]*# tat`)

	v.server.Kill()
	v.says("#outage", "No decision by Redis at .*")
	v.says("#source", "no decision")
	v.server.Restart(t)
	v.until(`document.querySelector("#outage").hidden`)
	v.press("Reserve")
	v.says("#headline", "allowed")
}
