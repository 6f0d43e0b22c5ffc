// The manifest of docs/kubernetes.md makes a container that is ready. Its names match each other.

package image_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.yaml.in/yaml/v3"

	"funnel/test/pages/page"
)

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
		if list, isList := part.([]any); isList {
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
	service, set := documents[0], documents[1]
	pod, labels := at(set, "spec.template.spec"), at(set, "spec.template.metadata.labels")
	funnel, user := at(pod, "containers.0"), at(pod, "securityContext")
	require.NotEmpty(t, labels)
	require.Equal(t, labels, at(set, "spec.selector.matchLabels"))
	require.Equal(t, labels, at(service, "spec.selector"))
	require.Equal(t, at(service, "metadata.name"), at(set, "spec.serviceName"))
	mount := map[string]any{"name": at(pod, "volumes.0.name"), "mountPath": "/data"}
	require.Equal(t, []any{mount}, at(funnel, "volumeMounts"))
	t.Run("in a container", func(t *testing.T) {
		command := words(at(funnel, "args"))
		require.Equal(t, "$(REDISCLI_AUTH)", command[1])
		command[1] = "secret"
		box := start(t, []string{
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
