package replication_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"funnel/internal/servertest"
)

// A ledger knows what clients asked of their funnels and what they were answered, and
// requires that servers agree.
//
// The law: in any stretch of time a funnel grants no more than capacity + elapsed / T
// tokens, where T is the emission interval. The TAT shows both sides of it. Each token
// moves the TAT by T, from the opening of the ledger at the earliest; and the TAT never
// lies more than the capacity ahead of now:
//
//	opened + kept * T <= max(TAT, now)     no token is lost, none granted twice
//	TAT <= now + min(asked, capacity) * T  none is there that nobody asked for
//
// Kept are the tokens that must be there, whatever has failed. Asked are those that may
// be there, which are more after a failure:
//
//   - the tokens of a call whose connection broke after it was sent: nobody knows
//     whether it came to the server;
//   - the tokens of a call that a killed server has answered, if it had not yet put them
//     where they outlast it ([ledger.keep]).
//
// As long as T is longer than the test, nothing leaks. Then both sides name one number
// of tokens, which is exact when nothing has failed.
//
// A call is entered as the number of tokens that it puts in. So a reservation and a
// charge are entered as a CL.THROTTLE is, and a refund with a number below 0.
type ledger struct {
	opened time.Time

	mutex    sync.Mutex
	survives bool // whether tokens are kept as soon as a call is answered; else keep says so
	migrated bool // MIGRATE hands on how long a key still lives, so it then expires a little later
	accounts []account
	figures  figures
	breaches []string // replies that break a law
}

// A funnel is filled with one capacity and one emission interval only.
type funnel struct {
	key      string
	capacity int64
	interval time.Duration
}

// An account is what is known of one funnel, in tokens since the ledger was opened.
type account struct {
	funnel
	answered int64 // the server has said that they are in
	kept     int64
	asked    int64
}

type figures struct {
	allowed, limited, peeked int64 // calls by their replies
	refused                  int64 // calls that certainly did nothing: an error, or never sent
	unknown                  int64 // calls without an answer
}

func (f figures) answered() int64 { return f.allowed + f.limited + f.peeked }
func (f figures) failed() int64   { return f.refused + f.unknown }

// still is an emission interval that outlasts every test.
const still = 10_000 * time.Second

func openLedger(funnels []funnel) *ledger {
	ledger := &ledger{opened: time.Now(), survives: true}
	for _, funnel := range funnels {
		ledger.accounts = append(ledger.accounts, account{funnel: funnel})
	}
	return ledger
}

// mixedFunnels are funnels of three kinds: small and soon full, large and never full, and
// such that leak, and come and go.
func mixedFunnels(prefix string, count int) (funnels []funnel) {
	for i := range count {
		key, small := fmt.Sprintf("%s%d", prefix, i), 1+int64(i)%16
		funnels = append(funnels, []funnel{{key, small, still}, {key, 50_000, still}, {key, small, 100 * time.Millisecond}}[i%3])
	}
	return funnels
}

// A call is entered before it is sent, and again when it is known what became of it.
type call struct {
	*account
	tokens int64
	kept   int64 // of the funnel when the call was sent
}

func (l *ledger) ask(funnel int, tokens int64) call {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	account := &l.accounts[funnel]
	call := call{account: account, tokens: tokens, kept: account.kept}
	account.asked += max(0, tokens)
	account.kept += min(0, tokens)
	return call
}

// booked enters that the tokens of a call are in.
func (l *ledger) booked(call call) {
	call.answered += call.tokens
	call.account.asked += min(0, call.tokens)
	if l.survives {
		call.account.kept += max(0, call.tokens)
	}
}

// refused enters that a call did nothing.
func (l *ledger) refused(call call) {
	call.account.asked -= max(0, call.tokens)
	call.account.kept -= min(0, call.tokens)
}

// enterReply judges the reply of CL.THROTTLE by what was known when it was sent, and
// enters it.
func (l *ledger) enterReply(call call, reply servertest.Reply) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	limited, limit, remaining := reply[0] == 1, reply[1], reply[2]
	leaked := int64(time.Since(l.opened) / call.interval)
	booked := call.tokens
	if limited {
		booked = 0
	}
	switch {
	case limit != call.capacity || remaining < 0 || remaining > limit-booked:
		l.breach(call, "contradicts itself: %v", reply)
	case limited && (remaining >= call.tokens || call.asked <= call.capacity):
		l.breach(call, "is limited though it fits into what %d tokens have left: %v", call.asked-call.tokens, reply)
	case limit-remaining+leaked < call.kept+booked:
		l.breach(call, "finds the funnel emptier than %d tokens have left it: %v", call.kept, reply)
	}
	switch {
	case limited:
		l.figures.limited++
		l.refused(call)
	case call.tokens == 0:
		l.figures.peeked++
	default:
		l.figures.allowed++
		l.booked(call)
	}
}

// enterFailure enters a call without a reply. Nobody knows what became of it, unless it was
// answered with an error, which only servers that change roles may do, or never sent.
func (l *ledger) enterFailure(call call, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	var reply redis.Error
	var network *net.OpError
	switch {
	case err == nil:
		l.breach(call, "is not answered with five integers")
	case errors.As(err, &reply):
		l.figures.refused++
		l.refused(call)
		switch word, _, _ := strings.Cut(err.Error(), " "); word {
		case "READONLY", "LOADING", "MASTERDOWN", "MOVED", "CLUSTERDOWN":
		default:
			l.breach(call, "is answered %v", err)
		}
	case errors.As(err, &network) && network.Op == "dial":
		l.figures.refused++
		l.refused(call)
	default:
		l.figures.unknown++
	}
}

func (l *ledger) breach(call call, format string, arguments ...any) {
	l.breaches = append(l.breaches, fmt.Sprintf("%d tokens for %+v: ", call.tokens, call.funnel)+fmt.Sprintf(format, arguments...))
}

func (l *ledger) count() figures {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.figures
}

// answered are the tokens that clients have been told of, by funnel.
func (l *ledger) answered() (tokens []int64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for _, account := range l.accounts {
		tokens = append(tokens, account.answered)
	}
	return tokens
}

// keep enters that so many tokens are on a disk or a replica by now.
func (l *ledger) keep(answered []int64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	for i, tokens := range answered {
		l.accounts[i].kept = max(l.accounts[i].kept, tokens)
	}
}
