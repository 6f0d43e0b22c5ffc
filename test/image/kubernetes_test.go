package image_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"funnel/internal/servertest"
	"funnel/test/page"
)

// decode takes no field that Kubernetes does not know, in this case.
func decode(t *testing.T, text string, into any) {
	t.Helper()
	content, err := yaml.YAMLToJSONStrict([]byte(text))
	require.NoError(t, err)
	wrong, err := json.UnmarshalStrict(content, into)
	require.NoError(t, err)
	require.Empty(t, wrong)
}

// requireRestricted has Kubernetes itself check a Pod.
func requireRestricted(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	require.NoError(t, err)
	level := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	result := policy.AggregateCheckResults(evaluator.EvaluatePod(level, &metav1.ObjectMeta{}, &pod))
	require.True(t, result.Allowed, result.ForbiddenDetail())
}

// The manifest is one that Kubernetes knows, and a container with its restrictions is ready.
func TestManifestOfThePage(t *testing.T) {
	first, second, _ := strings.Cut(page.Marked(t, top+"/docs/kubernetes.md", "funnel.yaml"), "---\n")
	var service corev1.Service
	var set appsv1.StatefulSet
	decode(t, first, &service)
	decode(t, second, &set)
	pod, labels := set.Spec.Template.Spec, set.Spec.Template.Labels
	funnel, user := pod.Containers[0], pod.SecurityContext
	requireRestricted(t, pod)
	require.True(t, *funnel.SecurityContext.ReadOnlyRootFilesystem)
	require.Equal(t, []any{labels, labels, service.Name}, []any{set.Spec.Selector.MatchLabels, service.Spec.Selector, set.Spec.ServiceName})
	require.Equal(t, []corev1.VolumeMount{{Name: pod.Volumes[0].Name, MountPath: "/data"}}, funnel.VolumeMounts)
	t.Run("in a container", func(t *testing.T) {
		command := strings.Split(strings.Replace(strings.Join(funnel.Args, "\n"), "$(REDISCLI_AUTH)", "secret", 1), "\n")
		box := start(t, []string{"--env", "REDISCLI_AUTH=secret", "--read-only", "--user", fmt.Sprintf("%d:%d", *user.RunAsUser, *user.RunAsGroup),
			"--cap-drop", "ALL", "--security-opt", "no-new-privileges", "--tmpfs", fmt.Sprintf("/data:mode=770,gid=%d", *user.FSGroup),
			"--memory", fmt.Sprint(funnel.Resources.Limits.Memory().Value())}, command...)
		requireReply(t, box.client(t, "secret"), 15)
		box.exec(t, funnel.ReadinessProbe.Exec.Command...)
		box.exec(t, funnel.StartupProbe.Exec.Command...)
	})
}

// The values are of the types that the chart passes on, and a server loads what the init
// container has copied.
func TestValuesOfThePage(t *testing.T) {
	var values struct {
		Strategy appsv1.DeploymentStrategyType `json:"deploymentStrategy"`
		Volumes  []corev1.Volume               `json:"extraVolumes"`
		Init     []corev1.Container            `json:"extraInitContainers"`
		Mounts   []corev1.VolumeMount          `json:"extraVolumeMounts"`
		Config   string                        `json:"valkeyConfig"`
	}
	decode(t, page.Marked(t, top+"/docs/kubernetes.md", "values.yaml"), &values)
	init := values.Init[0]
	require.Equal(t, []corev1.VolumeMount{{Name: values.Volumes[0].Name, MountPath: values.Mounts[0].MountPath}}, init.VolumeMounts)
	seccomp := &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault} // which the chart sets
	requireRestricted(t, corev1.PodSpec{Containers: values.Init, SecurityContext: &corev1.PodSecurityContext{SeccompProfile: seccomp}})

	dockerfile, err := os.ReadFile(filepath.Join(top, "Dockerfile"))
	require.NoError(t, err)
	require.Contains(t, string(dockerfile), " "+init.Command[1]+"\n")
	inImage, folder := filepath.Join(t.TempDir(), "funnel.so"), t.TempDir()
	require.NoError(t, os.Symlink(servertest.Module(t), inImage))
	output, err := exec.Command(init.Command[0], inImage, strings.Replace(init.Command[2], init.VolumeMounts[0].MountPath, folder, 1)).CombinedOutput()
	require.NoError(t, err, string(output))
	line := strings.Replace(values.Config, values.Mounts[0].MountPath, folder, 1)
	requireReply(t, servertest.Start(t, page.WithModule(t, line)).Client(t), 15)
}
