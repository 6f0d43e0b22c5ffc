// What servers say about the commands: words, flags, keys and permissions.

package command_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"funnel/internal/servertest"
)

func TestCommandsAreDescribed(t *testing.T) {
	client := servertest.StartClient(t)
	known := []string{"write", "readonly", "denyoom", "fast", "movablekeys", "admin", "blocking", "noscript"}
	for _, c := range commands {
		info := client.Command(t.Context()).Val()[c.name]
		require.NotNil(t, info, c.name)
		flags := slices.DeleteFunc(slices.Clone(info.Flags), func(flag string) bool { return !slices.Contains(known, flag) })
		require.ElementsMatch(t, strings.Fields(c.flags), flags, c.name)
		positions := [4]int{int(info.Arity), int(info.FirstKeyPos), int(info.LastKeyPos), int(info.StepCount)}
		if !servertest.Since7(t) { // a module cannot describe its commands
			require.Equal(t, c.positions[1:], positions[1:], c.name)
			continue
		}
		require.Equal(t, c.positions, positions, c.name)
		docs := client.Do(t.Context(), "command", "docs", c.name).Val().(map[any]any)[c.name].(map[any]any)
		require.NotEmpty(t, docs["summary"], c.name)
		require.Equal(t, "0.1.0", docs["since"], c.name)
		complexity := "O(1)"
		if c.maxRows() > 1 {
			complexity = "O(N)"
		}
		require.Contains(t, docs["complexity"], complexity, c.name)
		require.Equal(t, c.syntax, syntaxOf(docs["arguments"]), c.name)
	}
}

// syntaxOf writes arguments as servers document them.
func syntaxOf(arguments any) string {
	var words []string
	for _, argument := range arguments.([]any) {
		argument := argument.(map[any]any)
		word := argument["name"].(string)
		switch argument["type"] {
		case "block":
			word = syntaxOf(argument["arguments"])
		case "oneof":
			var forms []string
			for _, form := range argument["arguments"].([]any) {
				forms = append(forms, syntaxOf([]any{form}))
			}
			word = "(" + strings.Join(forms, "|") + ")"
		case "pure-token":
			word = argument["token"].(string)
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

// TestKeysAreFound: servers know the keys of a call, and how the call uses them.
func TestKeysAreFound(t *testing.T) {
	client := servertest.StartClient(t)
	for _, c := range commands {
		access := "RW access update"
		if c.is("readonly") {
			access = "RO access"
		}
		for _, count := range []int{1, 2, 3, 64} {
			keys := keyNames(min(count, c.maxRows()))
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

// TestUsersNeedPermission: users need permission for the command, and permission to write every
// key, or to read it for CL.PEEK. Rules for built-in categories apply if commands of modules can be
// in these. Rules for the module's own category apply if a module can add one (Redis 7.4, Valkey
// 8). In Redis 7.0 and before, no command of a module is in a category, so a rule for a category
// forbids nothing.
//
// The first load fails: the server finds an unknown setting after OnLoad, and unloads the module.
// The module has to allow that, or Redis 8 ends itself.
func TestUsersNeedPermission(t *testing.T) {
	t.Parallel()
	server := servertest.Start(t, servertest.Options{})
	admin := server.Client(t)
	if servertest.Since7(t) {
		err := admin.Do(t.Context(), "module", "loadex", servertest.Module(t), "config", "funnel.burst", "1").Err()
		require.ErrorContains(t, err, "Error loading the extension")
		servertest.AwaitCron(t, admin)
		require.Regexp(t, "^ERR unknown command", servertest.Try(admin, "cl.throttle key 15 30 60"))
	}
	require.NoError(t, admin.Do(t.Context(), "module", "load", servertest.Module(t)).Err())
	all := "+" + strings.Join(names(""), " +")
	rules := map[string][]string{
		all + " ~user:*": names(""), all + " ~admin:*": nil,
		"+@write ~*": names("write"), "+@read ~*": names("readonly"), "+@fast ~*": names("fast"),
		"+@all -@write ~*": names("readonly"), "+@throttle ~*": names(""),
	}
	if strings.Contains(server.Log(), "this server has no ACL categories for commands of modules") {
		rules["+@write ~*"] = nil
		rules["+@read ~*"] = nil
		rules["+@fast ~*"] = nil
		rules["+@all -@write ~*"] = names("")
	}
	if !slices.Contains(strings.Fields(servertest.Call(t, admin, "acl cat")), "throttle") {
		delete(rules, "+@throttle ~*")
	}
	if servertest.Since7(t) { // before, a permission for a key covers reading and writing
		rules[all+" %R~user:*"] = names("readonly")
		rules[all+" %W~user:*"] = nil
		rules[all+" %RW~user:*"] = names("")
	}
	for rule, allowed := range rules {
		user := server.ClientOfUser(t, rule)
		for _, c := range commands {
			for _, line := range c.calls("user:1") {
				require.NoError(t, admin.FlushAll(t.Context()).Err(), "a key holds the state of one kind")
				reply := servertest.Try(user, line)
				if slices.Contains(allowed, c.name) {
					require.Regexp(t, "^[01] ", reply, "%s with %s", line, rule)
				} else {
					require.Contains(t, reply, "NOPERM", "%s with %s", line, rule)
				}
			}
		}
	}
	app := server.ClientOfUser(t, all+" ~user:*")
	for _, c := range commands {
		for _, keys := range [][]string{{"admin:1", "user:1"}, {"user:1", "admin:1"}} {
			if c.maxRows() > 1 {
				require.Contains(t, servertest.Try(app, c.calls(keys...)[0]), "NOPERM", "%s of %s", c.name, keys)
			}
		}
	}
}
