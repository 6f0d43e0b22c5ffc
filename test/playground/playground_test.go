package playground_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// surface is where the water begins, from the top of the drawing.
const surface = `Number(document.querySelector("#one .water").getAttribute("transform").match(/ ([0-9.]+)\)/)[1])`

// isRed says that the walls of a funnel of the section are drawn in red.
func isRed(section, key string) string {
	return fmt.Sprintf(`(() => {
		const [red, green, blue] = getComputedStyle(document.querySelector("#%s [data-key=%s] .wall")).stroke.match(/\d+/g);
		return red - green > 90 && red - blue > 90;
	})()`, section, key)
}

func TestPouringFillsAndTimeDrains(t *testing.T) {
	s := newStage(t)
	v := s.look(t, "one")
	v.says(".detail", "^15 of 15 remaining$")
	empty := evaluate[float64](v, surface)
	v.press("Pour")
	v.says(".headline", "^allowed$")
	v.says(".detail", "^14 of 15 remaining, empty in 2.0 s$")
	require.Equal(t, "> CL.RESERVE playground:demo 15 30 60 1\n"+
		"1) (integer) 0          # limited\n"+
		"2) \"0\"                  # wait\n"+
		"3) 1) 1) (integer) 0    # limited\n"+
		"      2) (integer) 15   # limit\n"+
		"      3) (integer) 14   # remaining\n"+
		"      4) \"0\"            # wait\n"+
		"      5) \"2\"            # reset_after", v.text(".terminal"))
	require.Equal(t, "15", v.text("[data-text=capacity]"))
	require.Equal(t, "14", v.text("[data-text=upper]"))
	require.Equal(t, "2.0 s", v.text("[data-text=lower]"))
	require.Equal(t, "a token leaks every 2 s", v.text("[data-text=rate]"))
	one := evaluate[float64](v, surface)
	require.Less(t, one, empty)
	v.set("quantity", "9")
	v.press("Pour")
	v.says(".detail", "^5 of 15 remaining, empty in 20.0 s$")
	ten := evaluate[float64](v, surface)
	require.Less(t, ten, one)

	s.pass(v, 10*time.Second)
	v.says(".detail", "^10 of 15 remaining, empty in 10.0 s$")
	require.InDelta(t, one-(one-ten)*4/9, evaluate[float64](v, surface), 0.1, "5 tokens are left")
	v.press("Refund")
	v.says(".headline", "^refunded$")
	v.says(".detail", "^15 of 15 remaining$")
	require.Zero(t, s.server.Client(t).DBSize(t.Context()).Val(), "the funnel of the server is empty, too")
	v.set("quantity", "18")
	v.press("Charge")
	v.says(".headline", `^charged: overfull for 6.0 s$`)
	v.says("[data-text='upper word']", "^overfull$")
	v.until(isRed("one", "demo"))
	v.press("Empty")
	v.says(".headline", "^empty$")
	require.Contains(t, v.text(".terminal"), "> DEL playground:demo\n(integer) 1\n> CL.PEEK playground:demo 15 30 60 1\n1) (integer) 0")
}

func TestTheSixteenthCallIsLimited(t *testing.T) {
	s := newStage(t)
	v := s.look(t, "one")
	v.press("Pour 20 times")
	v.says(".headline", `^limited: come back in 2\.0 s$`)
	v.says(".detail", "^15 allowed, 5 limited · 0 of 15 remaining, empty in 30.0 s$")
	v.until(isRed("one", "demo"))
	require.Equal(t, "aaaaaaaaaaaaaaalllll", evaluate[string](v, `[...document.querySelectorAll("#one .calls i")].map((i) => i.className[0]).join("")`))
	require.Equal(t, "limited: come back in 2.0 s. 15 allowed, 5 limited. 0 of 15 remaining, empty in 30.0 s", v.text("[role=status]"))

	s.pass(v, 1900*time.Millisecond)
	v.says(".headline", `^limited: come back in 0\.1 s$`)
	s.pass(v, 99*time.Millisecond)
	v.says(".headline", `^limited: come back in 0\.1 s$`)
	s.pass(v, time.Millisecond)
	v.says(".headline", "^come back now$")
	v.until("!" + isRed("one", "demo"))
	v.press("Pour")
	v.says(".headline", "^allowed$")
	v.press("Pour")
	v.says(".headline", `^limited: come back in 2\.0 s$`)
}

// The limit comes with every call, and only the level is stored.
func TestLimitsChangeAtAnyTime(t *testing.T) {
	s := newStage(t)
	v := s.look(t, "one")
	v.set("quantity", "6")
	v.press("Pour")
	v.says(".detail", "^9 of 15 remaining, empty in 12.0 s$")
	v.set("capacity", "10")
	v.says(".detail", "^4 of 10 remaining, empty in 12.0 s$")
	v.set("period", "30")
	v.says(".detail", "^0 of 10 remaining, empty in 12.0 s$")
	v.press("Pour")
	v.says(".headline", `^limited: come back in 8\.0 s$`)
	v.says(".terminal", "^> CL.RESERVE playground:demo 10 30 30 6\n1\\) \\(integer\\) 1 ")

	v.set("quantity", "11")
	v.press("Pour")
	v.says(".headline", "^limited: 11 tokens never fit$")
	v.says(".detail", "^The quantity is larger than the capacity: no waiting helps.$")
	s.pass(v, time.Minute)
	v.says(".headline", "^limited: 11 tokens never fit$")
	require.Contains(t, v.text(".terminal"), "\n2) \"-1\" ")

	before := s.server.Client(t).Info(t.Context(), "commandstats").Val()
	for _, wrong := range []struct{ name, value, want string }{
		{"capacity", "many", "capacity must be an integer from 1 to 9223372036854775807, not 'many'"},
		{"count", "0", "count must be an integer from 1 to 9223372036854775807, not '0'"},
		{"period", "<b>", "period must be seconds above 0, at most 9223372036.854775807 and with up to 9 fraction digits, not '<b>'"},
		{"quantity", "1.5", "quantity must be an integer from 0 to 9223372036854775807, not '1.5'"},
	} {
		right := evaluate[string](v, fmt.Sprintf(`document.querySelector("#one [name=%s]").value`, wrong.name))
		v.set(wrong.name, wrong.value)
		v.press("Pour")
		v.says(".headline", "^error$")
		v.until(fmt.Sprintf(`document.querySelector("#one .detail").textContent === %q`, wrong.want))
		v.until(fmt.Sprintf(`document.querySelector("#one [name=%s][aria-invalid]")`, wrong.name))
		v.set(wrong.name, right)
		v.until(`!document.querySelector("[aria-invalid]")`)
	}
	require.Regexp(t, `cmdstat_cl.reserve:calls=3,`, before)
	require.Regexp(t, `cmdstat_cl.reserve:calls=3,`, s.server.Client(t).Info(t.Context(), "commandstats").Val())
}

func TestSeveralLimitsAsOneShowWhichLimits(t *testing.T) {
	s := newStage(t)
	v := s.look(t, "several")
	v.press("Pour 20 times")
	v.says(".headline", `^limited: come back in 1\.0 s$`)
	v.says(".detail", "^5 allowed, 15 limited · limited by second$")
	v.says("[data-key=second] .row", `^limits: wait 1\.0 s$`)
	v.says("[data-key=minute] .row", "^15 of 20 remaining$")
	v.says("[data-key=hour] .row", "^not asked$")
	v.until(isRed("several", "second"))
	v.until("!" + isRed("several", "minute"))
	require.Contains(t, v.text(".terminal"), "> CL.RESERVE playground:second 5 1 1 1 playground:minute 20 20 60 1\n")

	v.do(chromedp.Click(chromedp.CSS("#several [data-key=hour] [name=used]")))
	v.set("quantity", "101")
	v.press("Pour")
	v.says(".headline", "^limited: 101 tokens never fit$")
	v.says("[data-key=hour] .row", "^limits: never fits$")
	v.set("count", "0")
	v.press("Pour")
	v.says(".detail", "^second: count must be an integer from 1 ")
	v.set("count", "1")
	v.set("quantity", "5")
	for range 3 {
		s.pass(v, 5*time.Second)
		v.press("Pour")
	}
	s.pass(v, 5*time.Second)
	v.says("[data-key=second] .row", "^5 of 5 remaining$")
	v.set("quantity", "4")
	for range 3 { // 8, 4 and 0 remain in minute at most, then it limits, and not second
		v.press("Pour")
		s.pass(v, 4*time.Second)
	}
	v.press("Pour")
	v.says(".detail", "^limited by minute$")
	v.until(isRed("several", "minute"))
	v.until("!" + isRed("several", "second"))
	v.until("!" + isRed("several", "hour"))
}

// An answer is about the funnels that were asked, whatever is ticked meanwhile.
func TestErrorOfAFunnelThatIsNoLongerUsed(t *testing.T) {
	s := newStage(t)
	v := s.look(t, "several")
	v.do(chromedp.Click(chromedp.CSS("#several [data-key=hour] [name=used]")))
	v.do(chromedp.Evaluate[chromedp.Void](`{
		const find = (selector) => document.querySelector("#several " + selector);
		find("[data-key=hour] [name=count]").value = "0";
		find("button").click();
		find("[name=used]").click();
	}`))
	v.says(".detail", "^hour: count must be an integer from 1 ")
}

func TestReservationsComeInTheirOrder(t *testing.T) {
	s := newStage(t)
	v := s.look(t, "turns")
	v.press("5 callers")
	queue := func(want string) {
		t.Helper()
		v.until(fmt.Sprintf(`[...document.querySelectorAll("#turns .queue li")].map((li) => li.firstChild.textContent + ": " + li.lastChild.textContent).join("; ") === %q`, want))
	}
	v.says(".headline", `^caller 5: your turn in 4\.0 s$`)
	queue("caller 1: go ahead; caller 2: go ahead; caller 3: go ahead; caller 4: 2.0 s; caller 5: 4.0 s")
	v.says("[data-text='upper word']", "^overfull$")
	require.Equal(t, "max_wait 10 s", v.text("[data-text=ceiling]"))
	require.Equal(t, "2", v.text("[data-text=upper]"))
	require.Equal(t, "caller 4caller 5", v.text(".above"), "from the brim upwards")
	s.pass(v, 1500*time.Millisecond)
	queue("caller 1: go ahead; caller 2: go ahead; caller 3: go ahead; caller 4: 0.5 s; caller 5: 2.5 s")
	s.pass(v, 1500*time.Millisecond)
	queue("caller 4: go ahead; caller 5: 1.0 s")
	v.press("Reserve")
	v.says(".headline", `^caller 6: your turn in 3\.0 s$`)
	queue("caller 4: go ahead; caller 5: 1.0 s; caller 6: 3.0 s")
	v.set("max_wait", "4.5")
	v.press("Reserve")
	v.says(".headline", `^limited: come back in 0\.5 s$`)
	require.Contains(t, v.text(".terminal"), "> CL.RESERVE playground:turns 3 1 2 1 4.500000000\n1) (integer) 1 ")
	queue("caller 4: go ahead; caller 5: 1.0 s; caller 6: 3.0 s")
	s.pass(v, 3*time.Second)
	queue("caller 5: go ahead; caller 6: go ahead")
}

// With the clock of the machine: who comes back when it says so is allowed.
func TestByScript(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.Options{})
	v := look(t, serve(t, server), "one")
	v.until(`document.querySelector("#server").textContent === "by the script"`)
	v.set("capacity", "1")
	v.set("count", "1")
	v.set("period", "3")
	v.press("Pour")
	v.press("Pour")
	v.says(".headline", `^limited: come back in [0-2]\.[0-9] s$`)
	require.Regexp(t, `^> EVALSHA [0-9a-f]{40} 1 playground:demo reserve 1 1 3 1\n1\) \(integer\) 1 `, v.text(".terminal"))
	v.until(isRed("one", "demo"))
	v.says(".headline", "^come back now$")
	v.press("Pour")
	v.says(".headline", "^allowed$")
	v.says(".detail", "^1 of 1 remaining$")
}

func TestServerThatGoesAwayAndComesBack(t *testing.T) {
	t.Parallel()
	server := servertest.StartModule(t)
	v := look(t, serve(t, server), "one")
	server.Kill()
	v.do(chromedp.WaitVisible(chromedp.CSS("#outage")))
	v.until(fmt.Sprintf(`document.querySelector("#outage").textContent.startsWith("Redis at %s does not answer: ")`, server.Addr()))
	v.until(`document.querySelector("#server").textContent === "no decision"`)
	v.press("Pour")
	v.says(".detail", "^Redis has not decided.$")
	server.Restart(t)
	v.do(chromedp.WaitNotVisible(chromedp.CSS("#outage")))
	v.press("Pour")
	v.says(".headline", "^allowed$")
}

// Text is readable in light and dark, and nothing is wider than the window.
func TestScreens(t *testing.T) {
	s := newStage(t)
	for _, scheme := range []string{"light", "dark"} {
		require.NoError(t, s.server.Client(t).FlushAll(t.Context()).Err())
		v := s.look(t, "one", screen(1280, 720, 1, "prefers-color-scheme: "+scheme, "prefers-reduced-motion: reduce"))
		require.Equal(t, scheme == "dark", evaluate[float64](v, `Number(getComputedStyle(document.body).backgroundColor.match(/\d+/)[0])`) < 60)
		for _, use := range [][3]string{{"one", "Pour 20 times", "limited"}, {"several", "Pour 20 times", "limited"}, {"turns", "5 callers", "caller 5"}} {
			v.open(use[0])
			v.press(use[1])
			v.says(".headline", use[2])
			require.Empty(t, evaluate[[]string](v, tooPale), "%s, %s", use[0], scheme)
			require.Zero(t, evaluate[int](v, `document.getAnimations().length`), "nothing moves with reduced motion")
			for _, width := range []int64{375, 900, 1280} {
				v.do(chromedp.EmulateViewport(width, 720))
				require.Empty(t, evaluate[[]string](v, tooWide), "%s, %s, %d pixels", use[0], scheme, width)
			}
		}
	}
}

// tooWide are elements that make the page scroll sideways.
const tooWide = `document.documentElement.scrollWidth <= innerWidth ? [] :
	[...document.querySelectorAll("body *")].filter((e) => e.getBoundingClientRect().right > innerWidth).map((e) => e.outerHTML.slice(0, 80))`

// tooPale are texts with a contrast below 4.5 to 1, which WCAG asks for, but for those of
// what is disabled.
const tooPale = `(() => {
	const channels = (color) => color.match(/[0-9.]+/g).map(Number);
	const light = (color) => {
		const [r, g, b] = channels(color).map((c) => c / 255).map((c) => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const below = (e) => {
		for (; e; e = e.parentElement) {
			const color = getComputedStyle(e).backgroundColor;
			if (channels(color)[3] !== 0) return color;
		}
	};
	return [...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() && !e.closest("fieldset:disabled, .above, .spoken") &&
		(e.matches("input") || [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()))).flatMap((e) => {
		const style = getComputedStyle(e), [a, b] = [light(e.matches("text") ? style.fill : style.color), light(below(e))];
		const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
		return contrast < 4.5 ? [contrast.toFixed(2) + " " + e.outerHTML.slice(0, 80)] : [];
	});
})()`

func TestKeyboard(t *testing.T) {
	s := newStage(t)
	v := s.look(t, "one")
	v.do(chromedp.Focus(chromedp.CSS("#tab-one")), chromedp.KeyEvent(kb.ArrowRight), chromedp.WaitVisible(chromedp.CSS("#several")))
	v.do(chromedp.KeyEvent(kb.ArrowRight), chromedp.WaitVisible(chromedp.CSS("#turns")))
	v.do(chromedp.KeyEvent(kb.ArrowRight), chromedp.WaitVisible(chromedp.CSS("#one")))
	require.Equal(t, "tab-one", evaluate[string](v, "document.activeElement.id"))
	v.do(chromedp.KeyEvent(kb.Tab))
	require.Equal(t, "Pour", evaluate[string](v, "document.activeElement.textContent"))
	v.do(chromedp.KeyEvent(kb.Enter))
	v.says(".detail", "^14 of 15 remaining")
	v.do(chromedp.Focus(chromedp.CSS("#one [name=quantity]")), chromedp.KeyEvent(kb.Enter))
	v.says(".detail", "^13 of 15 remaining")
}
