// Each line of the README and of docs/docker.md that starts a container does what the page says.
// The manifest of docs/kubernetes.md makes a container that is ready, and its names match each
// other.

package image_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"funnel/test/pages/page"
)

// top is the repository.
const top = "../../.."

func read(t testing.TB, path string) string { return page.Read(t, filepath.Join(top, path)) }

func linesOf(t testing.TB, path, mark string) []string {
	return strings.Split(strings.TrimSpace(page.Marked(t, filepath.Join(top, path), mark)), "\n")
}

// TestGoOfTheImageIsThatOfTheModule: the Dockerfile names the toolchain of go.mod.
func TestGoOfTheImageIsThatOfTheModule(t *testing.T) {
	version := regexp.MustCompile(`(?m)^toolchain go(\S+)$`).FindStringSubmatch(read(t, "go.mod"))
	require.NotNil(t, version)
	require.Contains(t, read(t, "Dockerfile"), "\nARG GO_IMAGE=golang:"+version[1]+"-bookworm\n")
}

// TestLinesOfTheREADME builds an image as the README says, on the base that is tested, and starts
// it. All layers except the labels exist already.
func TestLinesOfTheREADME(t *testing.T) {
	t.Parallel()
	label := func(name string) string {
		return inspect(t, image(t), `(index .Config.Labels "org.opencontainers.image.`+name+`")`)
	}
	lines := linesOf(t, "README.md", "docker")
	require.Equal(t, []string{"docker build -t funnel .", "docker run -p 127.0.0.1:6379:6379 funnel"}, lines)
	name := unique()
	t.Cleanup(func() { tryDocker("rmi", name) })
	page.Shell(t, top, 0, strings.Replace(lines[0], "funnel", name, 1)+" --build-arg COMMIT="+label("revision")+" --build-arg VERSION="+label("version")+
		" --build-arg BASE="+fromEnvironment(t, "FUNNEL_IMAGE_BASE")+
		" --build-arg GO_IMAGE="+fromEnvironment(t, "FUNNEL_IMAGE_GO"))
	box := newContainer(t)
	run(t, detached(lines[1], box), name)
	requireReply(t, box.client(t), 15)
}

// detached makes a line return at once, and listen on a port that nobody else has.
func detached(line string, box container) string {
	return strings.Replace(line, "-p 127.0.0.1:6379:6379 ", "--detach --name "+string(box)+" -p 127.0.0.1::6379 ", 1)
}

// TestLinesOfThePage runs each line that docs/docker.md shows. It changes the names of the image
// and of the volume and the port, and makes the line return.
func TestLinesOfThePage(t *testing.T) {
	t.Parallel()
	// By what follows "docker run", and the port.
	servers := map[string]struct {
		limit         int64
		config, value string
	}{
		`-v funnel:/data funnel --appendonly yes`:                                  {15, "appendonly", "yes"},
		`funnel redis-server --maxmemory 100mb`:                                    {15, "maxmemory", "104857600"},
		`-e FUNNEL_ARGS="compat redis-cell" funnel`:                                {16, "appendonly", "no"},
		`-v "$PWD/redis.conf:/etc/redis.conf" funnel redis-server /etc/redis.conf`: {15, "maxmemory", "123456789"},
		`-e REDISCLI_AUTH=secret funnel --requirepass secret`:                      {15, "requirepass", "secret"},
	}
	lines := linesOf(t, "docs/docker.md", "docker run")
	require.Len(t, lines, len(servers)+1)
	for _, line := range lines {
		t.Run(line, func(t *testing.T) {
			if line == "docker run funnel redis-cli -h other cl.throttle user:42 15 30 60" {
				network := unique()
				docker(t, "network", "create", network)
				t.Cleanup(func() { tryDocker("network", "rm", network) })
				start(t, []string{"--network", network, "--network-alias", "other"}).client(t)
				line = strings.Replace(line, "run", "run --rm --network "+network, 1)
				require.Equal(t, "0\n15\n14\n-1\n2\n", run(t, line, image(t)))
				return
			}
			want, known := servers[strings.TrimPrefix(line, "docker run -p 127.0.0.1:6379:6379 ")]
			require.True(t, known, "no test for this line")
			box := newContainer(t)
			run(t, detached(line, box), image(t))
			var password []string
			if want.config == "requirepass" {
				password = []string{want.value}
			}
			server := box.client(t, password...)
			requireReply(t, server, want.limit)
			require.Equal(t, want.value, server.ConfigGet(t.Context(), want.config).Val()[want.config])
			if password != nil {
				box.exec(t, "funnel-healthcheck.sh")
				require.NotContains(t, server.Info(t.Context(), "errorstats").Val(), "NOAUTH", "the check knows the password")
			}
		})
	}
}

// run runs a line in a folder with a redis.conf, with that image and a volume of its own, and
// returns what it prints.
func run(t *testing.T, line, image string) string {
	line = regexp.MustCompile(` funnel( |$)`).ReplaceAllString(line, " "+image+"$1")
	before, after, found := strings.Cut(line, " funnel:/data ")
	if found {
		line = before + " " + volume(t) + ":/data " + after
	}
	command := exec.Command("bash", "-c", line)
	command.Dir = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(command.Dir, "redis.conf"), []byte("maxmemory 123456789\n"), 0o644))
	output, err := command.Output()
	require.NoError(t, err, line)
	return string(output)
}

// manifest returns the YAML documents of docs/kubernetes.md.
func manifest(t *testing.T) (documents []any) {
	for text := range strings.SplitSeq(page.Marked(t, top+"/docs/kubernetes.md", "funnel.yaml"), "---\n") {
		var document any
		require.NoError(t, yaml.Unmarshal([]byte(text), &document))
		documents = append(documents, document)
	}
	return documents
}

// at returns the part of a document at a path of keys and indexes.
func at(part any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		list, isList := part.([]any)
		if isList {
			index, _ := strconv.Atoi(key)
			part = list[index]
		} else {
			part = part.(map[string]any)[key]
		}
	}
	return part
}

func words(list any) (words []string) {
	for _, word := range list.([]any) {
		words = append(words, word.(string))
	}
	return words
}

func TestManifestOfThePage(t *testing.T) {
	documents := manifest(t)
	service, set, budget := documents[0], documents[1], documents[2]
	pod, labels := at(set, "spec.template.spec"), at(set, "spec.template.metadata.labels")
	funnel, user := at(pod, "containers.0"), at(pod, "securityContext")
	require.NotEmpty(t, labels)
	require.Equal(t, labels, at(set, "spec.selector.matchLabels"))
	require.Equal(t, labels, at(service, "spec.selector"))
	require.Equal(t, labels, at(budget, "spec.selector.matchLabels"))
	require.Equal(t, at(service, "metadata.name"), at(set, "spec.serviceName"))
	mount := map[string]any{"name": at(pod, "volumes.0.name"), "mountPath": "/data"}
	require.Equal(t, mount, at(funnel, "volumeMounts.0"))
	require.Equal(t, at(pod, "volumes.1.name"), at(funnel, "volumeMounts.1.name"))
	t.Run("in a container", func(t *testing.T) {
		// The Secret, as the page makes it, in a folder.
		const secret = `auth.conf="requirepass $password"`
		require.Contains(t, read(t, "docs/kubernetes.md"), secret)
		folder, file := t.TempDir(), at(pod, "volumes.1.secret.items.0.path").(string)
		require.NoError(t, os.WriteFile(filepath.Join(folder, file), []byte("requirepass secret"), 0o644))
		require.NoError(t, os.Chmod(folder, 0o755))
		command := words(at(funnel, "args"))
		require.Equal(t, fmt.Sprint(at(funnel, "volumeMounts.1.mountPath"), "/", file), command[1])
		require.NotContains(t, fmt.Sprint(command), "AUTH", "no password on the command line")
		box := start(t, []string{
			"--volume", fmt.Sprint(folder, ":", at(funnel, "volumeMounts.1.mountPath"), ":ro"),
			"--env", "REDISCLI_AUTH=secret", "--user", fmt.Sprint(at(user, "runAsUser"), ":", at(user, "runAsGroup")),
			"--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges",
			"--tmpfs", fmt.Sprint("/data:mode=770,gid=", at(user, "fsGroup")),
			"--memory", strings.TrimSuffix(at(funnel, "resources.limits.memory").(string), "i"),
		}, command...)
		requireReply(t, box.client(t, "secret"), 15)
		box.exec(t, words(at(funnel, "readinessProbe.exec.command"))...)
		box.exec(t, words(at(funnel, "startupProbe.exec.command"))...)
	})
}
