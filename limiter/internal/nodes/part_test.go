package nodes

import (
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// hashTags are keys and what selects their nodes.
var hashTags = map[string]string{
	"a": "a", "": "", "{a}": "a", "{a}b": "a", "b{a}c": "a", "{a}{b}": "a", "x{a}b{c}": "a", "{a}}": "a",
	"{}a": "{}a", "{}b": "{}b", "{}{a}": "{}{a}", "{}": "{}", // an empty tag is none
	"{a": "{a", "}a": "}a", "a}": "a}", "a}{b": "a}{b", "}{a}": "a", // a brace that is not closed
	"{{a}": "{a", "{{a}}": "{a", "{ }": " ", "漏{斗}": "斗",
}

// Servers choose the slot of a key by its hash tag alone.
func TestHashTags(t *testing.T) {
	client := servertest.Start(t, servertest.Options{Config: []string{"--save", "", "--cluster-enabled", "yes"}}).Client(t)
	slot := func(key string) int64 {
		slot, err := client.ClusterKeySlot(t.Context(), key).Result()
		require.NoError(t, err)
		return slot
	}
	slots := map[string]int64{}
	for key, tag := range hashTags {
		require.Equal(t, tag, hashTag(key), "%q", key)
		before, seen := slots[tag]
		if seen {
			require.Equal(t, before, slot(key), "%q: all keys with the tag %q have one slot", key, tag)
		}
		slots[tag] = slot(key)
	}
	for tag, a := range slots {
		for other, b := range slots {
			require.True(t, tag == other || a != b, "%q and %q are two tags, and both have slot %d", tag, other, a)
		}
	}
}
