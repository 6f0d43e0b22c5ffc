package image_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// top is the repository.
const top = "../.."

// readmeLines returns the commands between two comments of a README.
func readmeLines(t testing.TB, readme, mark string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(top, readme))
	require.NoError(t, err)
	_, rest, found := strings.Cut(string(text), "<!-- "+mark+":")
	require.Truef(t, found, "%s has no comment that begins with %q", readme, mark)
	block, _, found := strings.Cut(rest, "<!-- end of "+mark+" -->")
	require.Truef(t, found, "%s has no end of %q", readme, mark)
	var lines []string
	for line := range strings.Lines(block) {
		if command, indented := strings.CutPrefix(line, "    "); indented {
			lines = append(lines, strings.TrimSpace(command))
		}
	}
	return lines
}

// TestBothREADMEsShowTheSameLines: a reader of either runs what is tested.
func TestBothREADMEsShowTheSameLines(t *testing.T) {
	for _, mark := range []string{"image", "compose"} {
		english := readmeLines(t, "README.md", mark)
		require.NotEmpty(t, english)
		require.Equal(t, english, readmeLines(t, "README.zh-CN.md", mark))
	}
}

// TestGoOfTheImageIsThatOfTheModule: the Dockerfile names the toolchain of go.mod.
func TestGoOfTheImageIsThatOfTheModule(t *testing.T) {
	module, err := os.ReadFile(filepath.Join(top, "go.mod"))
	require.NoError(t, err)
	version := regexp.MustCompile(`(?m)^toolchain go(\S+)$`).FindSubmatch(module)
	require.NotNil(t, version)
	dockerfile, err := os.ReadFile(filepath.Join(top, "Dockerfile"))
	require.NoError(t, err)
	require.Contains(t, string(dockerfile), "\nARG GO_IMAGE=golang:"+string(version[1])+"-bookworm\n")
}

// TestLinesOfTheREADME runs each line that the README shows, as it stands but for the
// name of the image, the port and what makes it return, and checks the server.
func TestLinesOfTheREADME(t *testing.T) {
	t.Parallel()
	image(t)
	checks := map[string]func(t *testing.T, line string){
		`docker run -p 6379:6379 -v funnel:/data funnel --appendonly yes`: func(t *testing.T, line string) {
			client := startLine(t, line).client(t)
			require.Equal(t, []int64{0, 15, 14, -1, 2}, throttle(t, client, transcript...))
			requireConfig(t, client, "appendonly", "yes")
		},
		`docker run -p 6379:6379 funnel redis-server --maxmemory 100mb`: func(t *testing.T, line string) {
			client := startLine(t, line).client(t)
			require.Equal(t, []int64{0, 15, 14, -1, 2}, throttle(t, client, transcript...))
			requireConfig(t, client, "maxmemory", "104857600")
		},
		`docker run -p 6379:6379 -e FUNNEL_ARGS="compat redis-cell" funnel`: func(t *testing.T, line string) {
			client := startLine(t, line).client(t)
			require.Equal(t, []int64{0, 16, 15, -1, 2}, throttle(t, client, transcript...))
		},
		`docker run -p 6379:6379 -v "$PWD/redis.conf:/etc/redis.conf" funnel redis-server /etc/redis.conf`: func(t *testing.T, line string) {
			client := startLine(t, line).client(t)
			require.Equal(t, []int64{0, 15, 14, -1, 2}, throttle(t, client, transcript...))
			requireConfig(t, client, "maxmemory", "123456789")
		},
		`docker run -p 6379:6379 -e REDISCLI_AUTH=secret funnel --requirepass secret`: func(t *testing.T, line string) {
			box := startLine(t, line)
			client := box.client(t, func(options *redis.Options) { options.Password = "secret" })
			require.Equal(t, []int64{0, 15, 14, -1, 2}, throttle(t, client, transcript...))
			// The counter shows that the check calls the command, rather than failing without a password.
			box.exec(t, "funnel-healthcheck.sh")
			require.Contains(t, client.Info(t.Context(), "funnel").Val(), "funnel_peeked:1\r\n")
		},
		`docker run funnel redis-cli -h other cl.throttle user:42 15 30 60`: func(t *testing.T, line string) {
			network := network(t)
			start(t, []string{"--network", network, "--network-alias", "other"}).client(t)
			line = strings.Replace(asTested(t, line), "docker run", "docker run --rm --network "+network, 1)
			require.Equal(t, "0\n15\n14\n-1\n2", bash(t, t.TempDir(), line))
		},
	}
	lines := readmeLines(t, "README.md", "image")
	require.Len(t, lines, len(checks))
	for _, line := range lines {
		t.Run(line, func(t *testing.T) {
			check := checks[line]
			require.NotNil(t, check, "no test for this line of the README")
			check(t, line)
		})
	}
}

// startLine runs a line that starts a server.
func startLine(t *testing.T, line string) container {
	t.Helper()
	folder := t.TempDir()
	file := filepath.Join(folder, "redis.conf")
	require.NoError(t, os.WriteFile(file, []byte("maxmemory 123456789\n"), 0o644))
	line = asTested(t, line)
	box := container(unique())
	box.removeAfter(t)
	require.Contains(t, line, " -p 6379:6379 ")
	line = strings.Replace(line, " -p 6379:6379 ", " -p 127.0.0.1::6379 ", 1)
	bash(t, folder, strings.Replace(line, "docker run", "docker run --detach --name "+string(box), 1))
	return box
}

// asTested puts the image that is tested, and a volume of its own, into a line.
func asTested(t testing.TB, line string) string {
	t.Helper()
	if before, after, found := strings.Cut(line, " funnel:/data "); found {
		line = before + " " + volume(t) + ":/data " + after
	}
	return regexp.MustCompile(` funnel( |$)`).ReplaceAllString(line, " "+image(t)+"$1")
}

func requireConfig(t testing.TB, client *redis.Client, name, value string) {
	t.Helper()
	got, err := client.ConfigGet(t.Context(), name).Result()
	require.NoError(t, err)
	require.Equal(t, value, got[name])
}
