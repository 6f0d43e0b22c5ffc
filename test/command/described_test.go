package command_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

// TestCommandsAreDescribed to servers and their clients.
func TestCommandsAreDescribed(t *testing.T) {
	client := servertest.StartClient(t)
	known := []string{"write", "readonly", "denyoom", "fast", "movablekeys", "admin", "blocking", "noscript"}
	for _, c := range commands {
		info := client.Command(t.Context()).Val()[c.name]
		require.NotNil(t, info, c.name)
		flags := slices.DeleteFunc(slices.Clone(info.Flags), func(flag string) bool { return !slices.Contains(known, flag) })
		require.ElementsMatch(t, strings.Fields(c.flags), flags, c.name)
		positions := [4]int{int(info.Arity), int(info.FirstKeyPos), int(info.LastKeyPos), int(info.StepCount)}
		if !servertest.Since7(t) { // a module cannot tell the arity, nor the rest
			require.Equal(t, c.positions[1:], positions[1:], c.name)
			continue
		}
		require.Equal(t, c.positions, positions, c.name)
		docs := client.Do(t.Context(), "command", "docs", c.name).Val().(map[any]any)[c.name].(map[any]any)
		require.NotEmpty(t, docs["summary"], c.name)
		require.Equal(t, "0.1.0", docs["since"], c.name)
		require.Contains(t, docs["complexity"], map[bool]string{true: "O(N)", false: "O(1)"}[c.most() > 1], c.name)
		require.Equal(t, c.syntax, syntaxOf(docs["arguments"]), c.name)
	}
}

// syntaxOf writes arguments as servers document them.
func syntaxOf(arguments any) string {
	var words []string
	for _, argument := range arguments.([]any) {
		argument := argument.(map[any]any)
		word := argument["name"].(string)
		if argument["type"] == "block" {
			word = syntaxOf(argument["arguments"])
		}
		flags := fmt.Sprint(argument["flags"])
		if strings.Contains(flags, "multiple") {
			word += " [" + word + " ...]"
		}
		if strings.Contains(flags, "optional") {
			word = "[" + word + "]"
		}
		words = append(words, word)
	}
	return strings.Join(words, " ")
}

// TestKeysAreFound by servers and clients, with what the call does to them.
func TestKeysAreFound(t *testing.T) {
	client := servertest.StartClient(t)
	for _, c := range commands {
		access := map[bool]string{true: "RO access", false: "RW access update"}[c.is("readonly")]
		for _, count := range []int{1, 2, 3, 64} {
			keys := keyNames(min(count, c.most()))
			for _, line := range c.calls(keys...) {
				require.Equal(t, strings.Join(keys, " "), servertest.Call(t, client, "command getkeys "+line), line)
				if servertest.Since7(t) {
					want := "[" + strings.Join(keys, " ["+access+"] [") + " [" + access + "]"
					require.Equal(t, want, servertest.Call(t, client, "command getkeysandflags "+line), line)
				}
			}
		}
	}
}

// TestUsersNeedPermission for the command, and for every key: to write it, and CL.PEEK only
// to read it.
func TestUsersNeedPermission(t *testing.T) {
	server := servertest.StartModule(t)
	all := "+" + strings.Join(names(""), " +")
	app := server.ClientOfUser(t, all+" ~user:*")
	for _, c := range commands {
		for _, line := range c.calls("user:1") {
			requireAllowed(t, true, app, line, "~user:*")
		}
		for _, keys := range [][]string{{"admin:1"}, {"admin:1", "user:1"}, {"user:1", "admin:1"}} {
			requireAllowed(t, false, app, c.calls(keys[:min(len(keys), c.most())]...)[0], "~user:*")
			if c.most() == 1 {
				break
			}
		}
	}
	for _, c := range commands {
		other := server.ClientOfUser(t, all+" -"+c.name+" ~*")
		requireAllowed(t, false, other, c.calls("user:1")[0], "-"+c.name)
	}
	if !servertest.Since7(t) {
		return // there, a permission for a key is one to read and to write it
	}
	for rule, allowed := range map[string][]string{"%R~user:*": names("readonly"), "%W~user:*": nil, "%RW~user:*": names("")} {
		user := server.ClientOfUser(t, all+" "+rule)
		for _, c := range commands {
			requireAllowed(t, slices.Contains(allowed, c.name), user, c.calls("user:1")[0], rule)
		}
	}
}

// TestACLCategories: the built-in ones, where a module can join them, and their own, where
// it can add one (Redis 7.4, Valkey 8), also when the server has taken back a first load.
// Redis 7.0 and before lets no module join one: there no rule for a category forbids.
func TestACLCategories(t *testing.T) {
	server := servertest.Start(t, servertest.Options{})
	admin := server.Client(t)
	require.Error(t, admin.Do(t.Context(), "module", "loadex", servertest.Module(t), "config", "funnel.burst", "1").Err())
	require.NoError(t, admin.Do(t.Context(), "module", "load", servertest.Module(t)).Err())
	rules := map[string][]string{
		"+@write": names("write"), "+@read": names("readonly"), "+@fast": names("fast"), "+@throttle": names(""), "+@all -@write": names("readonly"),
	}
	if strings.Contains(server.Log(), "this server has no ACL categories for commands of modules") {
		rules = map[string][]string{"+@write": nil, "+@read": nil, "+@fast": nil, "+@all -@write": names("")}
	} else if !slices.Contains(strings.Fields(servertest.Call(t, admin, "acl cat")), "throttle") {
		delete(rules, "+@throttle")
	}
	for rule, allowed := range rules {
		user := server.ClientOfUser(t, rule+" ~*")
		for _, c := range commands {
			requireAllowed(t, slices.Contains(allowed, c.name), user, c.calls("user:1")[0], rule)
		}
	}
}
