// Package playground_test looks at examples/playground with a browser, headless Chromium:
// FUNNEL_CHROMIUM names the program, which then must be there; otherwise the tests are
// skipped where there is no chromium.
package playground_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
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

// The built example, and the browser that all tests share.
var (
	program  string
	chromium context.Context
	missing  string // why there is none
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	path, err := exec.LookPath("chromium")
	if named := os.Getenv("FUNNEL_CHROMIUM"); named != "" {
		if path, err = exec.LookPath(named); err != nil {
			fmt.Fprintf(os.Stderr, "FUNNEL_CHROMIUM is '%s', which is no program: install chromium\n", named)
			return 1
		}
	}
	if err != nil {
		missing = err.Error()
		return m.Run()
	}

	folder, err := os.MkdirTemp("", "funnel-playground")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(folder)
	program = filepath.Join(folder, "playground")
	if output, err := exec.Command("go", "-C", "../..", "build", "-o", program, "./examples/playground").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "cannot build the example: %v\n%s", err, output)
		return 1
	}

	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.WSURLReadTimeout(servertest.Patience))
	// Tests look at what is said and drawn, not at how it moves.
	options = append(options, chromedp.Flag("force-prefers-reduced-motion", true))
	if os.Getuid() == 0 {
		options = append(options, chromedp.NoSandbox) // Chromium has none for root
	}
	ctx, end := chromedp.NewExecAllocator(context.Background(), options...)
	defer end()
	ctx, end = chromedp.NewContext(ctx)
	defer end()
	if err := chromedp.Do(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "%s does not start: %v\n", path, err)
		return 1
	}
	chromium = ctx
	return m.Run()
}

// serve runs the example, and returns the address of its page.
func serve(t *testing.T, server *servertest.Server) (url string) {
	t.Helper()
	if missing != "" {
		t.Skip("needs Chromium, of Debian's package chromium:", missing)
	}
	log := filepath.Join(t.TempDir(), "stderr")
	stderr, err := os.Create(log)
	require.NoError(t, err)
	t.Cleanup(func() { stderr.Close() })
	command := exec.Command(program, "-redis", server.Addr(), "-listen", "127.0.0.1:0", "-prefix", "playground:")
	command.Stderr = stderr
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	require.NoError(t, command.Start())
	t.Cleanup(func() {
		command.Process.Kill()
		command.Wait()
	})
	servertest.Eventually(t, "the example serves", func() bool {
		text, _ := os.ReadFile(log)
		match := regexp.MustCompile(`address=(\S+)`).FindSubmatch(text)
		if match != nil {
			url = string(match[1])
		}
		return match != nil
	})
	return url
}

// A view is a page in a tab of its own.
type view struct {
	t       *testing.T
	ctx     context.Context
	section string
}

// look opens a section of the page.
func look(t *testing.T, url, section string, before ...chromedp.Action[chromedp.Void]) *view {
	t.Helper()
	ctx, end := chromedp.NewContext(chromium, chromedp.WithNewBrowserContext())
	t.Cleanup(end)
	ctx, cancel := context.WithTimeout(ctx, 2*servertest.Patience)
	t.Cleanup(cancel)
	v := &view{t: t, ctx: ctx, section: section}
	require.NoError(t, chromedp.Listen(ctx, func(event any) {
		switch event := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("the page throws: %v", event.ExceptionDetails)
		case *log.EventEntryAdded:
			if event.Entry.Source == log.EntrySourceSecurity {
				t.Errorf("the page does what it may not: %s", event.Entry.Text)
			}
		}
	}))
	v.do(before...)
	v.do(chromedp.Navigate(url+"/#"+section), chromedp.WaitVisible("#"+section))
	v.until(`document.querySelector("#server").textContent.startsWith("by the")`)
	return v
}

func (v *view) do(actions ...chromedp.Action[chromedp.Void]) {
	v.t.Helper()
	require.NoError(v.t, chromedp.Do(v.ctx, actions...))
}

// evaluate returns the value of an expression.
func evaluate[T any](v *view, expression string) T {
	v.t.Helper()
	value, err := chromedp.Run(v.ctx, chromedp.Evaluate[T](expression))
	require.NoError(v.t, err)
	return value
}

// until waits for a condition in the page.
func (v *view) until(condition string) {
	v.t.Helper()
	_, err := chromedp.Run(v.ctx, chromedp.Poll[chromedp.Void](condition, chromedp.WithPollingTimeout(servertest.Patience)))
	if err != nil {
		require.NoError(v.t, err, "%s; the page says: %s", condition, v.text(""))
	}
}

// text is that of an element of the section.
func (v *view) text(selector string) string {
	v.t.Helper()
	text, err := chromedp.Run(v.ctx, chromedp.TextContent(chromedp.CSS(strings.TrimSpace("#"+v.section+" "+selector))))
	require.NoError(v.t, err)
	return text
}

// says waits until an element of the section has a text, a regular expression.
func (v *view) says(selector, pattern string) {
	v.t.Helper()
	v.until(fmt.Sprintf("new RegExp(%q).test(document.querySelector(%q).textContent)", pattern, "#"+v.section+" "+selector))
}

// open goes to another section.
func (v *view) open(section string) {
	v.t.Helper()
	v.section = section
	v.do(chromedp.Click(chromedp.CSS("#tab-"+section)), chromedp.WaitVisible(chromedp.CSS("#"+section)))
}

// press presses the button that has this text, and waits for the answers.
func (v *view) press(button string) {
	v.t.Helper()
	v.do(chromedp.Click(fmt.Sprintf(`//form[@id="%s"]//button[normalize-space()="%s"]`, v.section, button)))
	v.until(fmt.Sprintf(`document.querySelector("#%s").ariaBusy === "false"`, v.section))
}

// set types into an input, over what is there.
func (v *view) set(name, value string) {
	v.t.Helper()
	evaluate[bool](v, fmt.Sprintf(`document.querySelector("#%s [name=%s]").select() ?? true`, v.section, name))
	v.do(chromedp.KeyEvent(value))
}

// screen is the size of the window, and how the page is to look.
func screen(width, height int64, scale float64, features ...string) chromedp.Action[chromedp.Void] {
	var media []*emulation.MediaFeature
	for _, feature := range features {
		name, value, _ := strings.Cut(feature, ": ")
		media = append(media, &emulation.MediaFeature{Name: name, Value: value})
	}
	return chromedp.Steps(
		chromedp.EmulateViewport(width, height, chromedp.EmulateScale(scale)),
		chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
			_, err := cdp.Call(ctx, tab, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: media})
			return err
		}))
}

// A stage is a server and a page whose clocks stand still between the steps of a test.
type stage struct {
	server *servertest.Server
	url    string
	clock  servertest.Clock
	now    time.Time
}

func newStage(t *testing.T) *stage {
	t.Helper()
	server := servertest.Start(t, servertest.Options{Module: servertest.DebugModule(t)})
	s := &stage{server: server, url: serve(t, server), clock: servertest.ClockOf(server.Client(t)), now: servertest.Epoch}
	s.clock.Set(t, s.now)
	return s
}

func (s *stage) look(t *testing.T, section string, before ...chromedp.Action[chromedp.Void]) *view {
	t.Helper()
	still := chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		_, err := cdp.Call(ctx, tab, page.AddScriptToEvaluateOnNewDocument,
			page.AddScriptToEvaluateOnNewDocumentParams{Source: "let clock = 1000; performance.now = () => clock"})
		return err
	})
	return look(t, s.url, section, append(before, still)...)
}

// pass has time pass in the server and in the page. The page may ask in between, and so be
// wrong about the level until it asks again.
func (s *stage) pass(v *view, d time.Duration) {
	v.t.Helper()
	s.now = s.now.Add(d)
	s.clock.Set(v.t, s.now)
	v.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf("clock += %g", d.Seconds()*1000)))
}
