//! Objects as they lie in memory: JSON, packed with the help of a sample. Most of a pod is what every pod has, and a fleet keeps a
//! hundred thousand of them.

use std::{borrow::Cow, fmt, sync::Arc};

use runtime::packed::{pack, unpack};

/// What objects usually hold, as we write it: the more of one that stands here, the less of it must be kept. Changing it changes
/// nothing but sizes.
const SAMPLE: &[u8] = br#"{"data":{"count":1,"firstTimestamp":"2026-01-01T00:00:00Z","involvedObject":{"apiVersion":"v1","fieldPath":"spec.containers{main}","kind":"Pod","lastTimestamp":"2026-01-01T00:00:00Z","message":"","reason":"","reportingComponent":"kubelet","reportingInstance":"","source":{"component":"kubelet","host":"node-"},"type":"Normal"
"type":"Warning","spec":{"progressDeadlineSeconds":600,"replicas":1,"revisionHistoryLimit":10,"selector":{"matchLabels":{"app":"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"},"type":"RollingUpdate"},"template":{"metadata":{
"status":{"availableReplicas":1,"readyReplicas":1,"updatedReplicas":1,"observedGeneration":1,"subsets":[{"addresses":[{"ip":"targetRef":{
{"metadata":{"annotations":{"prometheus.io/port":"9090","prometheus.io/scrape":"true"},"creationTimestamp":"2026-01-01T00:00:00Z","generateName":"","labels":{"app":"","app.kubernetes.io/component":"","app.kubernetes.io/instance":"","app.kubernetes.io/managed-by":"Helm","app.kubernetes.io/name":"","app.kubernetes.io/part-of":"","app.kubernetes.io/version":"","controller-revision-hash":"","helm.sh/chart":"","pod-template-hash":"","sym-group":"","sym-ldc":"","sym-unit":""},"name":"","namespace":"","ownerReferences":[{"apiVersion":"apps/v1","blockOwnerDeletion":true,"controller":true,"kind":"DaemonSet","name":"StatefulSet","kind":"ReplicaSet","name":"","uid":""}],"resourceVersion":"","uid":""},"spec":{"affinity":{"automountServiceAccountToken":false,"containers":[{"args":["command":["/bin/sh","-c","env":[{"name":"","value":""},{"name":"","valueFrom":{"configMapKeyRef":{"key":"","name":""}}},{"name":"","valueFrom":{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"}}},{"name":"","valueFrom":{"secretKeyRef":{"key":"","name":""}}}],"envFrom":[{"image":"registry.example.com/","imagePullPolicy":"IfNotPresent","livenessProbe":{"failureThreshold":3,"httpGet":{"path":"/healthz","port":"http","scheme":"HTTP"},"initialDelaySeconds":10,"periodSeconds":10,"successThreshold":1,"timeoutSeconds":1},"name":"","ports":[{"containerPort":8080,"hostPort":"name":"http","protocol":"TCP"},{"containerPort":9090,"name":"metrics","protocol":"TCP"}],"readinessProbe":{"failureThreshold":3,"httpGet":{"path":"/ready","port":8080,"scheme":"HTTP"},"initialDelaySeconds":5,"periodSeconds":10,"successThreshold":1,"timeoutSeconds":1},"resources":{"limits":{"cpu":"1","ephemeral-storage":"memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},"securityContext":{"allowPrivilegeEscalation":false,"capabilities":{"drop":["ALL"]},"privileged":"readOnlyRootFilesystem":true,"runAsNonRoot":true,"runAsUser":1000,"seccompProfile":{"type":"RuntimeDefault"}},"startupProbe":{"tcpSocket":{"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File","volumeMounts":[{"mountPath":"/etc/","name":"","readOnly":true,"subPath":""},{"mountPath":"/var/run/secrets/kubernetes.io/serviceaccount","name":"kube-api-access-","readOnly":true}]}],"dnsPolicy":"ClusterFirst","enableServiceLinks":true,"hostNetwork":true,"imagePullSecrets":[{"name":"initContainers":[{"nodeName":"node-","nodeSelector":{"preemptionPolicy":"PreemptLowerPriority","priority":0,"priorityClassName":"","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{"fsGroup":1000},"serviceAccount":"default","serviceAccountName":"default","terminationGracePeriodSeconds":30,"tolerations":[{"effect":"NoExecute","key":"node.kubernetes.io/not-ready","operator":"Exists","tolerationSeconds":300},{"effect":"NoExecute","key":"node.kubernetes.io/unreachable","operator":"Exists","tolerationSeconds":300}],"topologySpreadConstraints":[{"volumes":[{"configMap":{"defaultMode":420,"name":""},"name":""},{"emptyDir":{},"name":""},{"name":"","persistentVolumeClaim":{"claimName":""}},{"name":"","secret":{"defaultMode":420,"secretName":""}},{"name":"kube-api-access-","projected":{"defaultMode":420,"sources":[{"serviceAccountToken":{"expirationSeconds":3607,"path":"token"}},{"configMap":{"items":[{"key":"ca.crt","path":"ca.crt"}],"name":"kube-root-ca.crt"}},{"downwardAPI":{"items":[{"fieldRef":{"apiVersion":"v1","fieldPath":"metadata.namespace"},"path":"namespace"}]}}]}}]},"status":{"conditions":[{"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","observedGeneration":1,"status":"False","reason":"","message":"","type":"Available"},{"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","status":"True","type":"PodReadyToStartContainers"},{"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","status":"True","type":"Initialized"},{"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","status":"True","type":"Ready"},{"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","status":"True","type":"ContainersReady"},{"lastProbeTime":null,"lastTransitionTime":"2026-01-01T00:00:00Z","status":"True","type":"PodScheduled"}],"containerStatuses":[{"allocatedResources":{"containerID":"containerd://","image":"registry.example.com/","imageID":"registry.example.com/@sha256:","lastState":{"terminated":{"exitCode":1,"finishedAt":"","reason":"Error","startedAt":""}},"name":"","ready":true,"restartCount":0,"started":true,"state":{"running":{"startedAt":"2026-01-01T00:00:00Z"}}}],"hostIP":"172.18.0.","hostIPs":[{"ip":"172.18.0."}],"initContainerStatuses":[{"phase":"Running","podIP":"10.128.0.","podIPs":[{"ip":"10.128.0."}],"qosClass":"Burstable","qosClass":"BestEffort","startTime":"2026-01-01T00:00:00Z"}}"#;

/// One object as JSON, without what is the same for all of its kind (`apiVersion`, `kind`), without `managedFields` and what kubectl
/// last applied, and if it is a Secret without its values. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub struct Bytes(Arc<[u8]>);

impl Bytes {
    /// The JSON itself.
    pub fn json(&self) -> Cow<'_, [u8]> {
        unpack(&self.0, SAMPLE)
    }

    /// Whether they are one and the same in memory, and so never differ.
    pub fn is_same(&self, other: &Bytes) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// How much memory it takes.
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}

impl From<Vec<u8>> for Bytes {
    fn from(json: Vec<u8>) -> Self {
        Bytes(pack(&json, SAMPLE).unwrap_or(json).into())
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.json()))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_pod_is_kept_in_less_than_half_of_its_text() {
        let condition =
            |kind: &str| json!({"type": kind, "status": "True", "lastTransitionTime": "2026-02-03T04:05:06Z"});
        let pod = json!({"metadata": {"name": "web-6d4b75cb6d-hxk2p", "namespace": "shop", "labels": {"app": "web"},
                "creationTimestamp": "2026-02-03T04:05:06Z", "resourceVersion": "7", "uid": "0b0e2a7e-62a5-4bd5-9d5e-0c4d1c1f9f3e"},
            "spec": {"containers": [{"name": "main", "image": "web:1", "terminationMessagePath": "/dev/termination-log",
                "resources": {"requests": {"cpu": "1", "memory": "1Gi"}}, "ports": [{"containerPort": 80, "protocol": "TCP"}]}],
                "nodeName": "n-1", "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler"},
            "status": {"phase": "Running", "conditions": [condition("Ready"), condition("Initialized"), condition("PodScheduled")]}});
        let text = pod.to_string().into_bytes();
        let kept = Bytes::from(text.clone());
        assert_eq!(&*kept.json(), text);
        assert!(kept.len() * 5 < text.len() * 2, "{} of {}", kept.len(), text.len());
    }

    proptest! {
        #[test]
        fn objects_are_read_back(words in prop::collection::vec(".{0,30}", 0..60), begin in 0usize..3000, length in 0usize..3000) {
            let sample = SAMPLE.iter().skip(begin).take(length).copied().collect::<Vec<u8>>();
            let value = json!({"words": words, "sample": String::from_utf8_lossy(&sample)});
            let text = Value::to_string(&value).into_bytes();
            let kept = Bytes::from(text.clone());
            prop_assert!(kept == Bytes::from(text.clone()), "equal texts are kept equally");
            prop_assert_eq!(&*kept.json(), text);
        }
    }
}
