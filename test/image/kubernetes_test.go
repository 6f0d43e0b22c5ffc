package image_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"funnel/internal/servertest"
	"funnel/test/page"
)

// decode reads the YAML documents of a block of docs/kubernetes.md, one after the other.
func decode(t *testing.T, block string, documents ...any) {
	t.Helper()
	decoder := yaml.NewDecoder(strings.NewReader(page.Marked(t, top+"/docs/kubernetes.md", block)))
	for _, document := range documents {
		require.NoError(t, decoder.Decode(document))
	}
}

type probe struct{ Exec struct{ Command []string } }

type mount struct {
	Name string
	Path string `yaml:"mountPath"`
}

// The names in the manifest match each other, and a container with its restrictions is ready.
func TestManifestOfThePage(t *testing.T) {
	var service struct {
		Metadata struct{ Name string }
		Spec     struct{ Selector map[string]string }
	}
	var set struct {
		Spec struct {
			ServiceName string `yaml:"serviceName"`
			Selector    struct {
				Labels map[string]string `yaml:"matchLabels"`
			}
			Template struct {
				Metadata struct{ Labels map[string]string }
				Spec     struct {
					User struct {
						ID        int `yaml:"runAsUser"`
						Group     int `yaml:"runAsGroup"`
						FileGroup int `yaml:"fsGroup"`
					} `yaml:"securityContext"`
					Containers []struct {
						Args      []string
						Resources struct{ Limits struct{ Memory string } }
						Startup   probe   `yaml:"startupProbe"`
						Readiness probe   `yaml:"readinessProbe"`
						Mounts    []mount `yaml:"volumeMounts"`
					}
					Volumes []struct{ Name string }
				}
			}
		}
	}
	decode(t, "funnel.yaml", &service, &set)
	pod, labels := set.Spec.Template.Spec, set.Spec.Template.Metadata.Labels
	funnel, user := pod.Containers[0], pod.User
	require.NotEmpty(t, labels)
	require.Equal(t, labels, set.Spec.Selector.Labels)
	require.Equal(t, labels, service.Spec.Selector)
	require.Equal(t, service.Metadata.Name, set.Spec.ServiceName)
	require.Equal(t, []mount{{pod.Volumes[0].Name, "/data"}}, funnel.Mounts)
	t.Run("in a container", func(t *testing.T) {
		command := strings.Split(strings.Replace(strings.Join(funnel.Args, "\n"), "$(REDISCLI_AUTH)", "secret", 1), "\n")
		box := start(t, []string{"--env", "REDISCLI_AUTH=secret", "--read-only", "--user", fmt.Sprintf("%d:%d", user.ID, user.Group),
			"--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--tmpfs", fmt.Sprintf("/data:mode=770,gid=%d", user.FileGroup),
			"--memory", strings.TrimSuffix(funnel.Resources.Limits.Memory, "i")}, command...)
		requireReply(t, box.client(t, "secret"), 15)
		box.exec(t, funnel.Readiness.Exec.Command...)
		box.exec(t, funnel.Startup.Exec.Command...)
	})
}

// A server loads what the init container of the values has copied.
func TestValuesOfThePage(t *testing.T) {
	var values struct {
		Volumes []struct{ Name string } `yaml:"extraVolumes"`
		Init    []struct {
			Command []string
			Mounts  []mount `yaml:"volumeMounts"`
		} `yaml:"extraInitContainers"`
		Mounts []mount `yaml:"extraVolumeMounts"`
		Config string  `yaml:"valkeyConfig"`
	}
	decode(t, "values.yaml", &values)
	init, path := values.Init[0], values.Mounts[0].Path
	require.Equal(t, []mount{{values.Volumes[0].Name, path}}, values.Mounts)
	require.Equal(t, values.Mounts, init.Mounts)

	dockerfile, err := os.ReadFile(filepath.Join(top, "Dockerfile"))
	require.NoError(t, err)
	require.Contains(t, string(dockerfile), " "+init.Command[1]+"\n")
	inImage, folder := filepath.Join(t.TempDir(), "funnel.so"), t.TempDir()
	require.NoError(t, os.Symlink(servertest.Module(t), inImage))
	output, err := exec.Command(init.Command[0], inImage, strings.Replace(init.Command[2], path, folder, 1)).CombinedOutput()
	require.NoError(t, err, string(output))
	line := strings.Replace(values.Config, path, folder, 1)
	requireReply(t, servertest.Start(t, page.WithModule(t, line)).Client(t), 15)
}
