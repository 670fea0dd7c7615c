"""The standard suite for sandboxes of `langchain-tests`, as it is."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest
from deepagents.backends.protocol import SandboxBackendProtocol
from langchain_tests.integration_tests import SandboxIntegrationTests

from code_workers import Client
from code_workers.deepagents import CodeWorkersSandbox


class TestStandardSuite(SandboxIntegrationTests):
    @pytest.fixture(scope="class")
    def sandbox(self, client: Client) -> Iterator[SandboxBackendProtocol]:
        session = f"suite-{uuid.uuid4().hex[:12]}"
        yield CodeWorkersSandbox(client, session, classic=True)
        client.session(session).delete()
