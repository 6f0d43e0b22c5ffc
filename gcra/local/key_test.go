package local_test

import (
	"testing"

	"pgregory.net/rapid"

	"funnel/gcra/local"
)

func TestKey(t *testing.T) {
	for _, test := range []struct{ user, action, want string }{
		{"laoqian", "reply", "laoqian:reply"},
		{"a:b", "c", "a%3Ab:c"},
		{"a", "b:c", "a:b:c"},
		{"a%3Ab", "c", "a%253Ab:c"},
		{"a", "%3A", "a:%3A"},
		{"", "", ":"},
	} {
		if got := local.Key(test.user, test.action); got != test.want {
			t.Errorf("Key(%q, %q) = %q, want %q", test.user, test.action, got, test.want)
		}
	}
}

func TestNoTwoPairsShareAKey(t *testing.T) {
	// Few letters, and those that are escaped, so that pairs resemble each other.
	text := rapid.StringOfN(rapid.SampledFrom([]rune(":%25A3a")), 0, 6, -1)
	rapid.Check(t, func(t *rapid.T) {
		user, action := text.Draw(t, "user"), text.Draw(t, "action")
		key := local.Key(user, action)
		// Every other way to split the same letters, and a random pair.
		letters := user + ":" + action
		others := [][2]string{{text.Draw(t, "other user"), text.Draw(t, "other action")}}
		for i := range letters {
			others = append(others, [2]string{letters[:i], letters[i:]}, [2]string{letters[:i], letters[i+1:]})
		}
		for i := range key {
			others = append(others, [2]string{key[:i], key[i+1:]})
		}
		for _, other := range others {
			same := other == [2]string{user, action}
			if (local.Key(other[0], other[1]) == key) != same {
				t.Fatalf("%q and %q share the key %q", other, [2]string{user, action}, key)
			}
		}
	})
}
