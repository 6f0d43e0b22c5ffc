// Package playground_test looks at examples/playground with a browser, headless Chromium:
// FUNNEL_CHROMIUM names the program, which then must be there; otherwise the tests are
// skipped where there is no chromium.
package playground_test

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
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
	url    string
}

func newVisit(t *testing.T) *visit {
	t.Helper()
	named := os.Getenv("FUNNEL_CHROMIUM")
	chromium, err := exec.LookPath(cmp.Or(named, "chromium"))
	if err != nil && named == "" {
		t.Skip("needs Chromium, of Debian's package chromium:", err)
	}
	require.NoError(t, err, "install chromium")
	program := filepath.Join(t.TempDir(), "playground")
	output, err := exec.Command("go", "-C", "../..", "build", "-o", program, "./examples/playground").CombinedOutput()
	require.NoError(t, err, string(output))

	v := &visit{t: t, server: servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)}), now: servertest.Epoch}
	v.clock = servertest.ClockOf(v.server.Client(t))
	v.clock.Set(t, v.now)
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(servertest.FreePort(t)))
	v.url = "http://" + address
	example := exec.Command(program, "-redis", v.server.Addr(), "-listen", address, "-prefix", "playground:")
	example.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, example.Start())
	t.Cleanup(func() { example.Process.Kill(); example.Wait() })
	servertest.Eventually(t, "the example serves", func() bool {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			connection.Close()
		}
		return err == nil
	})

	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium), chromedp.WSURLReadTimeout(servertest.Patience))
	// Tests look at what is said and drawn, not at how it moves.
	options = append(options, chromedp.Flag("force-prefers-reduced-motion", true))
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
	v.do(chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, page.AddScriptToEvaluateOnNewDocument,
			page.AddScriptToEvaluateOnNewDocumentParams{Source: "let clock = 1000; performance.now = () => clock"})
		return err
	}))
	return v
}

func (v *visit) do(actions ...chromedp.Action[chromedp.Void]) {
	v.t.Helper()
	require.NoError(v.t, chromedp.Do(v.ctx, actions...))
}

func (v *visit) evaluate(expression string) {
	v.t.Helper()
	v.do(chromedp.Evaluate[chromedp.Void](expression))
}

// until waits for a condition in the page.
func (v *visit) until(condition string) {
	v.t.Helper()
	if _, err := chromedp.Run(v.ctx, chromedp.Poll[chromedp.Void](condition, chromedp.WithPollingTimeout(servertest.Patience))); err != nil {
		text, _ := chromedp.Run(v.ctx, chromedp.TextContent(chromedp.CSS("form:not([hidden])")))
		require.NoError(v.t, err, "%s; the page says: %s", condition, text)
	}
}

// says waits until an element of the section that is open has a text, a regular expression.
func (v *visit) says(selector, pattern string) {
	v.t.Helper()
	v.until(fmt.Sprintf("new RegExp(%q).test(document.querySelector(%q).textContent)", pattern, "form:not([hidden]) "+selector))
}

// press presses the button that has this text, and waits for the answers.
func (v *visit) press(button string) {
	v.t.Helper()
	v.evaluate(fmt.Sprintf(`[...document.querySelectorAll("form:not([hidden]) button")].find((b) => b.textContent === %q).click()`, button))
	v.until(`document.querySelector("form:not([hidden])").ariaBusy === "false"`)
}

// set types into an input.
func (v *visit) set(name, value string) {
	v.t.Helper()
	v.evaluate(fmt.Sprintf(`document.querySelector("form:not([hidden]) [name=%s]").select()`, name))
	v.do(chromedp.KeyEvent(value))
}

// pass lets time pass in the server and in the page. The page may ask in between, and so be
// wrong about the level until it asks again.
func (v *visit) pass(d time.Duration) {
	v.t.Helper()
	v.now = v.now.Add(d)
	v.clock.Set(v.t, v.now)
	v.evaluate(fmt.Sprintf("clock += %g", d.Seconds()*1000))
}

// look opens the page in a window of that scale, and with media features.
func (v *visit) look(scale float64, features ...string) {
	v.t.Helper()
	v.screen(scale, features...)
	v.do(chromedp.Navigate("about:blank"), chromedp.Navigate(v.url+"/#one"))
	v.until(`document.querySelector("#server").textContent === "by the module"`)
}

func (v *visit) screen(scale float64, features ...string) {
	v.t.Helper()
	var media []*emulation.MediaFeature
	for _, feature := range features {
		name, value, _ := strings.Cut(feature, ": ")
		media = append(media, &emulation.MediaFeature{Name: name, Value: value})
	}
	v.do(chromedp.EmulateViewport(1280, 720, chromedp.EmulateScale(scale)),
		chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
			_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: media})
			return err
		}))
}
