import java.io.BufferedReader;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.flink.configuration.Configuration;
import org.apache.flink.core.execution.JobClient;
import org.apache.flink.table.api.EnvironmentSettings;
import org.apache.flink.table.api.TableEnvironment;
import org.apache.flink.table.api.TableResult;

/**
 * Runs the statements that come through a pipe, one a line, in a Flink of its own, and says "done"
 * behind each. An INSERT is a job that goes on; "CANCEL" ends the last one. Its arguments are the
 * pipe, and Flink's settings as {@code key=value}.
 */
public class FlinkCdc {
  public static void main(String[] words) throws Exception {
    Configuration conf = new Configuration();
    for (int i = 1; i < words.length; i++) {
      String[] parts = words[i].split("=", 2);
      conf.setString(parts[0], parts[1]);
    }
    TableEnvironment flink =
        TableEnvironment.create(
            EnvironmentSettings.newInstance().inStreamingMode().withConfiguration(conf).build());
    JobClient job = null;
    BufferedReader in = Files.newBufferedReader(Path.of(words[0]));
    for (String line = in.readLine(); line != null; line = in.readLine()) {
      if (line.equals("CANCEL")) {
        if (job != null) job.cancel().get();
      } else {
        TableResult result = flink.executeSql(line);
        job = result.getJobClient().orElse(job);
      }
      System.out.println("done");
      System.out.flush();
    }
  }
}
